# Kore as a container image.
#
#   docker build -t kore .
#
# BASE may be any Debian with python3 (3.11 or newer) and its venv module. If the build must use a
# proxy or a mirror, pass pip's settings as a secret, which no layer stores:
# --secret id=pip_conf,src=pip.conf
ARG BASE=python:3.13-slim

FROM ${BASE} AS build
# Extras of pyproject.toml. The last three are for several processes (docs/workers.md).
ARG EXTRAS="mcp code encryption socks postgres nats s3"
WORKDIR /src
RUN python3 -m venv /opt/kore
COPY pyproject.toml constraints.txt ./
# Install the dependencies first, so that their layer is cached until they change.
RUN --mount=type=secret,id=pip_conf,target=/etc/pip.conf \
    python3 -c "import tomllib; p = tomllib.load(open('pyproject.toml', 'rb'))['project']; print(*p['dependencies'], *(one for extra in '${EXTRAS}'.split() for one in p['optional-dependencies'][extra]), 'hatchling', sep='\n')" > requirements.txt \
    && /opt/kore/bin/pip install --no-cache-dir -c constraints.txt -r requirements.txt
COPY README.md LICENSE ./
COPY agent agent
COPY gateway gateway
COPY kore kore
COPY workspace workspace
COPY examples/echo_channel examples/echo_channel
RUN /opt/kore/bin/pip install --no-cache-dir --no-deps --no-index --no-build-isolation . \
    && /opt/kore/bin/pip uninstall -q -y hatchling pip

FROM ${BASE}
# tini reaps processes that commands leave behind. If the base lacks that package, remove it and
# the ENTRYPOINT, and run the image with `docker run --init`.
RUN apt-get update \
    && apt-get install -y --no-install-recommends ca-certificates tini ripgrep \
    && rm -rf /var/lib/apt/lists/* \
    && useradd --uid 10001 --user-group --create-home --home-dir /home/kore kore \
    && install -d -o kore -g kore -m 0700 /home/kore/.kore /home/kore/workspace /home/kore/files
COPY --from=build /opt/kore /opt/kore
ENV PATH=/opt/kore/bin:$PATH \
    HOME=/home/kore \
    KORE_HOME=/home/kore/.kore \
    LANG=C.UTF-8 \
    PYTHONUNBUFFERED=1
USER 10001:10001
WORKDIR /home/kore
VOLUME /home/kore/.kore
STOPSIGNAL SIGTERM
HEALTHCHECK --interval=30s --timeout=5s --start-period=20s --retries=3 \
    CMD ["python3", "-I", "-m", "gateway.control.probe", "/healthz"]
ENTRYPOINT ["tini", "--"]
CMD ["kore", "gateway"]
