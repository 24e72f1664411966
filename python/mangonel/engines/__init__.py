"""Other servers that tests and the lab need: started on free loopback ports, stopped and removed with their data.

Redis, memcached, MariaDB, PostgreSQL, nginx, a latency proxy, certificates. `mangonel.server` runs MongoDB. Nothing
here knows a driver, the lab or a test.
"""
