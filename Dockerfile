# The server or a worker: `docker build -t tunesmith .`; compose.yaml runs both with PostgreSQL.
FROM python:3.13-slim AS build
COPY . /src
RUN python -m venv /opt/tunesmith && /opt/tunesmith/bin/pip install --no-cache-dir '/src[postgres]'

FROM python:3.13-slim
# The C compiler links shared libraries; tuning does without.
RUN apt-get update \
    && apt-get install -y --no-install-recommends gcc libc6-dev \
    && rm -rf /var/lib/apt/lists/* \
    && useradd --system --uid 10001 --create-home --home-dir /var/lib/tunesmith tunesmith
COPY --from=build /opt/tunesmith /opt/tunesmith
ENV PATH=/opt/tunesmith/bin:$PATH \
    PYTHONDONTWRITEBYTECODE=1 \
    XDG_DATA_HOME=/var/lib \
    XDG_CACHE_HOME=/var/lib/tunesmith/cache
USER tunesmith
WORKDIR /var/lib/tunesmith
VOLUME /var/lib/tunesmith
EXPOSE 8700
STOPSIGNAL SIGTERM
ENTRYPOINT ["tunesmith"]
CMD ["serve"]
