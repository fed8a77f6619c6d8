#!/usr/bin/env bash
# Asks a served model with the clients that people have: OpenAI's for Python and Hugging Face's InferenceClient, unmodified from pip. Needs
# Python 3.10.
#
#   scripts/clients_check.sh [binary]
#
# CLIENTS_PYTHON names a Python that has openai, huggingface_hub and numpy already; else they are installed beside target/.
set -euo pipefail
cd "$(dirname "$0")/.."

binary="${1:-$PWD/target/release/sightline}"
if [[ ! -x "$binary" ]]; then
  echo "clients_check: there is no binary $binary: run cargo build --release" >&2
  exit 2
fi

python="${CLIENTS_PYTHON:-}"
if [[ -z "$python" ]]; then
  python=target/clients/bin/python
  if [[ ! -x "$python" ]]; then
    python3 -m venv target/clients
    "$python" -m pip install --quiet openai huggingface_hub numpy
  fi
fi
exec "$python" scripts/clients_check.py "$binary"
