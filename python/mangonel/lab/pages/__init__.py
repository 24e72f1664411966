"""The web sites of the experiment `web`: a page of 30 posts as JSON, from each driver and mapper.

`stacks` reads the page as a user of the driver would; `site` serves it, with Tornado or with gevent's own server.
Nothing here measures; `mangonel.lab.experiments.web` does.
"""
