# Kore as a container image.
#
#   docker build -t kore .
#
# BASE may be any Debian with python3 (3.11 or newer) and its venv module. Where the build has to
# reach packages through a proxy or a mirror, hand pip its settings as a secret, which no layer
# keeps: --secret id=pip_conf,src=pip.conf
ARG BASE=python:3.13-slim

FROM ${BASE} AS build
WORKDIR /src
RUN python3 -m venv /opt/kore
COPY pyproject.toml constraints.txt ./
# The dependencies first: their layer lasts until they change.
RUN --mount=type=secret,id=pip_conf,target=/etc/pip.conf \
    python3 -c "import tomllib; p = tomllib.load(open('pyproject.toml', 'rb'))['project']; print(*p['dependencies'], *p['optional-dependencies']['mcp'], *p['optional-dependencies']['code'], 'hatchling', sep='\n')" > requirements.txt \
    && /opt/kore/bin/pip install --no-cache-dir -c constraints.txt -r requirements.txt
COPY README.md LICENSE ./
COPY agent agent
COPY gateway gateway
COPY kore kore
COPY workspace workspace
RUN /opt/kore/bin/pip install --no-cache-dir --no-deps --no-index --no-build-isolation . \
    && /opt/kore/bin/pip uninstall -q -y hatchling pip

FROM ${BASE}
# tini reaps what exec leaves behind. A base without that package: leave it and the ENTRYPOINT
# out, and run the image with `docker run --init`.
RUN apt-get update \
    && apt-get install -y --no-install-recommends ca-certificates tini ripgrep \
    && rm -rf /var/lib/apt/lists/* \
    && useradd --uid 10001 --user-group --create-home --home-dir /home/kore kore \
    && install -d -o kore -g kore -m 0700 /home/kore/.kore
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
    CMD ["python3", "-c", "import http.client, os, sys; c = http.client.HTTPConnection('127.0.0.1', int(os.environ.get('KORE_HTTP_PORT', '8787')), timeout=4); c.request('GET', '/healthz'); sys.exit(c.getresponse().status != 200)"]
ENTRYPOINT ["tini", "--"]
CMD ["kore", "gateway"]
