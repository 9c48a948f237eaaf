# A container to train in: TensorFlow with its GPU libraries, this package, JupyterLab.
#
#   docker build -t residual_keras .
#   docker run --gpus all -p 127.0.0.1:8888:8888 residual_keras
#
# JupyterLab prints the address to open, with its token.
ARG BASE_IMAGE=python:3.12-slim-bookworm
FROM ${BASE_IMAGE}

RUN useradd -l --create-home --uid 1000 dev \
    && python3 -m venv /opt/venv \
    && chown -R dev /opt/venv
ENV PATH=/opt/venv/bin:${PATH}

# TensorFlow first: it changes seldom and weighs gigabytes.
USER 1000
WORKDIR /home/dev
ARG TF_REQUIREMENT="tensorflow[and-cuda]>=2.20,<2.22"
# hadolint ignore=DL3013
RUN pip install --no-cache-dir "${TF_REQUIREMENT}"

# Some of the CUDA libraries that pip brings are not on TensorFlow's own search path, and
# without them it registers no GPU.
USER 0
RUN find /opt/venv -type d -path '*/nvidia/*/lib' > /etc/ld.so.conf.d/nvidia-pip.conf \
    && ldconfig

USER 1000
COPY --chown=1000 setup.cfg setup.py README.md LICENSE residual_keras/
COPY --chown=1000 residual_keras residual_keras/residual_keras
RUN pip install --no-cache-dir './residual_keras[notebooks]'
COPY --chown=1000 notebooks notebooks

EXPOSE 8888
CMD ["jupyter", "lab", "--ip=0.0.0.0", "--port=8888", "--no-browser", "--notebook-dir=notebooks"]
