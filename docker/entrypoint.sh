#!/bin/sh
# What a container does before its command: give whoever runs it a name, start SSH where
# a public key is given, make a token for JupyterLab where none is given.
set -eu

user=$(id -u)
group=$(id -g)

if [ "$user" != 0 ] && [ "$(id -u dev)" != "$user" ]; then
    rm -f /var/lib/extrausers/passwd /var/lib/extrausers/group
    echo "dev:x:$user:$group::$HOME:$SHELL" > /var/lib/extrausers/passwd
    echo "dev:x:$group:" > /var/lib/extrausers/group
fi

if [ ! -w . ]; then
    echo "$PWD belongs to $(stat -c %u:%g .), and $user:$group cannot write to it. Mount a" \
        "folder of your own and start with --user \"\$(id -u):\$(id -g)\"." >&2
fi

keys=${SSH_AUTHORIZED_KEYS:-}
keys_file=${SSH_AUTHORIZED_KEYS_FILE:-/run/secrets/authorized_keys}
if [ -z "$keys" ] && [ -f "$keys_file" ]; then
    keys=$(cat "$keys_file")
fi
if [ -n "$keys" ]; then
    if [ "$user" = 0 ]; then
        echo "SSH is for a user who is not root: leave out --user 0." >&2
        exit 2
    fi
    state=$HOME/.sshd
    [ -d "$state" ] || mkdir -m 700 "$state"
    printf '%s\n' "$keys" > "$state/authorized_keys"
    if ! accepted=$(ssh-keygen -l -f "$state/authorized_keys") ||
        grep -q PRIVATE "$state/authorized_keys"; then
        rm "$state/authorized_keys"
        echo "SSH_AUTHORIZED_KEYS holds public keys, a line each, as in ~/.ssh/*.pub." >&2
        exit 2
    fi
    [ -f "$state/host_key" ] || ssh-keygen -q -t ed25519 -N '' -f "$state/host_key"
    # A session would get none of the container's environment.
    settings=$(env | sed -n '/^\(PATH\|LANG\|\(CUDA\|KERAS\|NVIDIA\|TF\|TFDS\|XLA\)_[A-Z_]*\)=/ {
        s/["\\]/\\&/g
        s/.*/"&"/p
    }' | tr '\n' ' ')
    /usr/sbin/sshd -D -e -f "$(dirname "$0")/sshd_config" -h "$state/host_key" \
        -o "AuthorizedKeysFile=$state/authorized_keys" -o "SetEnv=$settings" &
    echo "SSH on port 2222 for dev, with the key" >&2
    echo "$accepted" >&2
fi

if [ "${1:-}" = jupyter ] && [ -z "${JUPYTER_TOKEN:-}" ]; then
    if [ -n "${JUPYTER_TOKEN_FILE:-}" ]; then
        JUPYTER_TOKEN=$(cat "$JUPYTER_TOKEN_FILE") # without the end of the line
    fi
    if [ -z "${JUPYTER_TOKEN:-}" ]; then
        JUPYTER_TOKEN=$(python -c 'import secrets; print(secrets.token_hex(24))')
        echo "JupyterLab: http://127.0.0.1:8888/lab?token=$JUPYTER_TOKEN" >&2
    fi
    export JUPYTER_TOKEN
fi

exec "$@"
