# The demo in a container: built from source in the first stage, and nothing of the toolchain in the second.
#
#   docker build -t mangonel-demo .
#   docker run --rm -p 8000:8000 mangonel-demo                       # a replica set of its own, gone with the container
#   docker run --rm -p 8000:8000 mangonel-demo mongodb://...         # yours
#
# x86-64 only as it stands: the mongod that the demo starts comes from the wheel of mangonel[server]. With a URI it needs none.

FROM rust:1.95-slim-bookworm AS build
# The versions are those of the image's release of Debian.
# hadolint ignore=DL3008
RUN apt-get update \
    && apt-get install --yes --no-install-recommends python3-dev python3-venv gcc libc6-dev \
    && rm -rf /var/lib/apt/lists/*
WORKDIR /src
COPY Cargo.toml Cargo.lock pyproject.toml README.md LICENSE THIRD-PARTY-LICENSES.md mangonel.cdx.json ./
# Says which of zstd is compiled.
COPY .cargo .cargo
COPY crates crates
COPY python python
COPY packaging packaging
# A member of the workspace; nothing of it is installed.
COPY tools/instructions tools/instructions
# Debian 12 has Python 3.11, and so has the second stage.
RUN python3 -m venv /opt/mangonel \
    && /opt/mangonel/bin/pip install --no-cache-dir ./packaging/mangonel-lab ".[demo]"

FROM debian:bookworm-slim
# mongod wants libcurl and OpenSSL 3.
# hadolint ignore=DL3008
RUN apt-get update \
    && apt-get install --yes --no-install-recommends python3 libcurl4 libssl3 ca-certificates \
    && rm -rf /var/lib/apt/lists/* \
    && useradd --create-home --uid 10001 demo
COPY --from=build /opt/mangonel /opt/mangonel
ENV PATH=/opt/mangonel/bin:$PATH PYTHONUNBUFFERED=1
USER demo
WORKDIR /home/demo
EXPOSE 8000
# It is 503 while the database takes no writes.
HEALTHCHECK --interval=10s --timeout=3s --start-period=60s \
    CMD ["python", "-c", "import urllib.request; urllib.request.urlopen('http://127.0.0.1:8000/health', timeout=2)"]
ENTRYPOINT ["mangonel", "demo", "--host", "0.0.0.0"]
