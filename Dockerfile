# syntax=docker/dockerfile:1
#
# docker build -t prvr .                                      for a machine without a GPU
# docker build -t prvr:cuda --build-arg DEVICE=cuda .         for an NVIDIA GPU (the host needs its driver and container toolkit)
# docker run --rm prvr doctor
#
# The library and the weights of encoders are in /data, so keep a volume there. compose.yaml does that, with a token.

ARG PYTHON=3.12

FROM python:${PYTHON}-slim AS build
# cpu: torch from the index of its CPU wheels. cuda: the usual wheel, which brings the CUDA libraries along.
ARG DEVICE=cpu
ARG EXTRAS=media,encoders,server,export,watch,mcp
ARG CPU_INDEX=https://download.pytorch.org/whl/cpu
RUN python -m venv /opt/prvr
ENV PATH=/opt/prvr/bin:$PATH PIP_DISABLE_PIP_VERSION_CHECK=1
WORKDIR /source
COPY constraints.txt ./
# In a step of its own: torch is most of the download, and changes of the source do not repeat it.
RUN --mount=type=cache,target=/root/.cache/pip \
    case "$DEVICE" in \
        cpu) pip install --constraint constraints.txt --index-url "$CPU_INDEX" torch ;; \
        cuda) pip install --constraint constraints.txt torch ;; \
        *) echo "DEVICE is cpu or cuda, not $DEVICE" >&2; exit 1 ;; \
    esac
COPY pyproject.toml README.md LICENSE ./
COPY src src
RUN --mount=type=cache,target=/root/.cache/pip pip install --constraint constraints.txt ".[$EXTRAS]"

FROM python:${PYTHON}-slim
RUN useradd --uid 1000 --create-home prvr && install --directory --owner=prvr --group=prvr /data
COPY --from=build /opt/prvr /opt/prvr
ENV PATH=/opt/prvr/bin:$PATH \
    PYTHONUNBUFFERED=1 \
    PRVR_LIBRARY=/data/library.prvr \
    HF_HOME=/data/models \
    NVIDIA_VISIBLE_DEVICES=all \
    NVIDIA_DRIVER_CAPABILITIES=compute,utility
USER prvr
WORKDIR /data
VOLUME /data
EXPOSE 7870
# By HTTPS as well (serve --certfile …). -I: files in /data are not imported.
HEALTHCHECK --interval=30s --timeout=5s --start-period=60s --retries=3 \
    CMD ["python", "-I", "-c", "import ssl, urllib.request as request\ntry: request.urlopen('http://127.0.0.1:7870/v1/health', timeout=2)\nexcept Exception: request.urlopen('https://127.0.0.1:7870/v1/health', timeout=2, context=ssl._create_unverified_context())"]
ENTRYPOINT ["prvr"]
CMD ["serve", "--host", "0.0.0.0"]
