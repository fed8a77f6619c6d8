#!/usr/bin/env python3
"""Asks Sightline about an issue with a screenshot. Needs Python alone.

    docs/clients/locate.py REPOSITORY TITLE [PICTURE]

REPOSITORY is the name of one that the service has. SIGHTLINE_URL (http://127.0.0.1:7411) says where it is; SIGHTLINE_API_KEY is sent if
the service wants one.
"""

import base64
import json
import os
import sys
import time
import urllib.error
import urllib.parse
import urllib.request

URL = os.environ.get("SIGHTLINE_URL", "http://127.0.0.1:7411")
KEY = os.environ.get("SIGHTLINE_API_KEY")


PATIENCE = 600
"""Seconds that it is waited at most, for a repository that is being built too."""


def ask(method, path, body=None):
    """The answer to a request; waits when the service says to."""
    end = time.monotonic() + PATIENCE
    headers = {"Content-Type": "application/json"} | ({"Authorization": f"Bearer {KEY}"} if KEY else {})
    data = None if body is None else json.dumps(body).encode()
    while True:
        request = urllib.request.Request(URL + path, data, headers, method=method)
        try:
            with urllib.request.urlopen(request, timeout=120) as response:
                return json.load(response)
        except urllib.error.HTTPError as error:
            detail = json.load(error)["error"]
            if "Retry-After" not in error.headers or time.monotonic() > end:
                sys.exit(f"{error.code} {detail['code']}: {detail['message']} ({detail['param']})")
            print(f"waiting: {detail['message']}", file=sys.stderr)
            time.sleep(int(error.headers["Retry-After"]))


def main():
    if len(sys.argv) < 3:
        sys.exit(__doc__)
    repository, title, *pictures = sys.argv[1:]
    repository = urllib.parse.quote(repository, safe="")
    images = [{"name": os.path.basename(it), "data": base64.b64encode(open(it, "rb").read()).decode()} for it in pictures]
    located = ask("POST", f"/v1/repositories/{repository}/locate", {"title": title, "images": images, "k": 5})
    for image in located["query"]["images"]:
        if not image["used"]:
            print(f"{image['name']} is not used: {image['reason']}", file=sys.stderr)
    for hit in located["functions"]:
        print(f"{hit['path']}:{hit['start_line']}  {hit['function']}  {hit['score']:.3f}")


main()
