"""The web sites of the experiment `web`: a page of 30 posts as JSON, for each driver and mapper.

`stacks` reads the page as a driver's user would; `site` serves it with Tornado or with gevent's own server.
`mangonel.lab.experiments.web` measures.
"""
