#!/usr/bin/env bash
# Sends a folder to Sightline and asks it about an issue with a screenshot. Needs curl and tar.
#
#   docs/clients/locate.sh FOLDER TITLE [PICTURE]
#
# SIGHTLINE_URL (http://127.0.0.1:7411) says where it is; SIGHTLINE_API_KEY is sent if the service wants one.
set -euo pipefail

[ $# -ge 2 ] || { sed -n '2,6s/^# \{0,1\}//p' "$0" >&2; exit 2; }
folder=$1 title=$2 picture=${3:-}
url=${SIGHTLINE_URL:-http://127.0.0.1:7411}
name=$(basename "$(realpath "$folder")" | tr -c 'A-Za-z0-9._\n-' _)
ask() { curl --silent --show-error --fail-with-body ${SIGHTLINE_API_KEY:+-H "Authorization: Bearer $SIGHTLINE_API_KEY"} "$@"; }

# A service that has just started loads its model first.
ask --retry 20 "$url/ready" >/dev/null

# The folder as an archive; the answer names a job.
tar -czf - -C "$folder" . | ask -X POST -H 'Content-Type: application/gzip' --data-binary @- "$url/v1/repositories/$name/snapshot" >/dev/null

# Its events end when it does. A job waits for those before it.
job=$(ask "$url/v1/repositories/$name" | sed -n 's/.*"job":"\([0-9a-f]*\)".*/\1/p')
echo "indexing $name; $url/v1/jobs/$job says how far it is" >&2
ask --no-buffer "$url/v1/jobs/$job/events" >/dev/null

# The question, as a form; a picture is a file of it.
ask -F title="$title" -F k=5 ${picture:+-F image=@"$picture"} "$url/v1/repositories/$name/locate"
