"""Programs that tests and the lab need beside mongod: started on free loopback ports, ended with their data.

Redis, memcached, MariaDB, PostgreSQL, nginx, a proxy with latency, certificates. MongoDB itself is
`mangonel.server`'s. Nothing here knows a driver, the lab or a test.
"""
