"""Whether an address answers 200, for health checks in a container without curl: `healthy.py
http://127.0.0.1:8080/healthz`."""

import sys
import urllib.error
import urllib.request

TIMEOUT_S = 5

if __name__ == "__main__":
    try:
        # Loopback, from the definition.
        with urllib.request.urlopen(sys.argv[1], timeout=TIMEOUT_S) as answer:  # noqa: S310
            sys.exit(answer.status != 200)
    except (OSError, urllib.error.HTTPError) as error:
        sys.exit(f"not healthy: {error}")
