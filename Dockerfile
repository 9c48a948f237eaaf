# A container to train in: TensorFlow with its GPU libraries, this package, JupyterLab
# and, for those who give a public key, SSH. docs/container.md says how it is used.
#
#   docker build -t residual_keras .
#   docker run --rm --gpus all -p 127.0.0.1:8888:8888 residual_keras
ARG BASE_IMAGE=python:3.12-slim-bookworm
FROM ${BASE_IMAGE}

# The keys that the package makes for the server would be the same in every container.
# hadolint ignore=DL3008
RUN apt-get update \
    && DEBIAN_FRONTEND=noninteractive apt-get install -y --no-install-recommends \
        curl \
        libnss-extrausers \
        openssh-server \
        tini \
    && rm -rf /var/lib/apt/lists/* /etc/ssh/ssh_host_*

# Packages belong to root and stay as they are; what a user adds by `pip install` goes to
# the home folder, which a virtual environment allows only if it sees the system's.
ENV PATH=/opt/venv/bin:/home/dev/.local/bin:${PATH}
RUN python3 -m venv --system-site-packages /opt/venv \
    # Login shells, such as SSH's and JupyterLab's, begin with a path of their own.
    && echo "PATH=${PATH}" > /etc/profile.d/residual_keras.sh

# TensorFlow first: it changes seldom and weighs gigabytes. Some of the CUDA libraries
# that pip brings are not on its own search path, and without them it registers no GPU.
# The loader's list holds for SSH too, which LD_LIBRARY_PATH would not reach.
ARG TF_REQUIREMENT="tensorflow[and-cuda]>=2.20,<2.22"
# hadolint ignore=DL3013
RUN pip install --no-cache-dir "${TF_REQUIREMENT}" \
    && find /opt/venv -type d -path '*/nvidia/*/lib' > /etc/ld.so.conf.d/nvidia-pip.conf \
    && ldconfig

# The requirements before the source, which changes with every commit.
WORKDIR /usr/src/residual_keras
COPY setup.cfg ./
RUN python -c "import configparser; found = configparser.ConfigParser(); \
found.read('setup.cfg'); print(found['options']['install_requires']); \
print(found['options.extras_require']['notebooks'])" > requirements.txt \
    && pip install --no-cache-dir -r requirements.txt
COPY setup.py README.md LICENSE ./
COPY residual_keras residual_keras
RUN pip install --no-cache-dir --no-deps . \
    && pip check \
    && rm -rf build ./*.egg-info

# Whoever runs the container is called dev: the user made here, or any other id that it
# is started with, which the entry point writes down for extrausers. Hence a home folder
# that is everybody's, like /tmp. SSH gives terminals to the group tty where there is one,
# which is not for every user to do.
ARG USER_ID=1000
COPY notebooks /home/dev/notebooks
RUN useradd -l --non-unique --uid "${USER_ID}" --home-dir /home/dev --shell /bin/bash dev \
    && groupdel tty \
    && sed -i 's/^\(passwd\|group\): */&extrausers /' /etc/nsswitch.conf \
    && mkdir /home/dev/work \
    && chmod 1777 /home/dev /home/dev/work \
    && chmod -R a+rwX /home/dev/notebooks /var/lib/extrausers
ENV HOME=/home/dev LANG=C.UTF-8 SHELL=/bin/bash
COPY docker/entrypoint.sh docker/sshd_config /usr/local/lib/residual_keras/

LABEL org.opencontainers.image.title="residual_keras" \
    org.opencontainers.image.description="Every way to carry a Transformer's residual stream, behind one argument of one Keras block." \
    org.opencontainers.image.licenses="Apache-2.0" \
    org.opencontainers.image.version="0.1.0"

USER ${USER_ID}
WORKDIR /home/dev/work
EXPOSE 8888 2222
HEALTHCHECK --start-period=60s \
    CMD ["curl", "--fail", "--silent", "--show-error", "http://127.0.0.1:8888/api"]
ENTRYPOINT ["tini", "--", "sh", "/usr/local/lib/residual_keras/entrypoint.sh"]
CMD ["jupyter", "lab", "--ip=0.0.0.0", "--port=8888", "--ServerApp.port_retries=0", "--no-browser", "--ServerApp.root_dir=/home/dev"]
