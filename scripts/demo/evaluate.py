#!/usr/bin/env python3
"""Tries block sizes and unrolling on a captured kernel, by a server that `r3-replay serve` started.

    scripts/demo/evaluate.py unix:PATH|tcp:HOST:PORT ARCHIVE KERNEL      (R3_TOKEN is the token, for TCP)
"""
import http.client, json, os, socket, sys, time

address, archive, kernel = sys.argv[1:4]
headers = {"Authorization": "Bearer " + os.environ.get("R3_TOKEN", "")}

def ask(method, path, body=None):
    kind, _, place = address.partition(":")
    connection = http.client.HTTPConnection(place if kind == "tcp" else "localhost")
    if kind == "unix":
        connection.sock = socket.socket(socket.AF_UNIX)
        connection.sock.connect(place)
    connection.request(method, path, body and json.dumps(body), headers)
    answer = connection.getresponse()
    if answer.status >= 400 and answer.status != 429:
        problem = json.load(answer)
        sys.exit(f"{problem['message']}. {problem['help']}")
    return answer

number = json.load(ask("POST", "/v1/archives", {"path": os.path.abspath(archive)}))["archive"]
blocks = [{"launch": {"block": [size, 1, 1]}} for size in (32, 64, 128, 256, 512, 1024)]
lifted = {"code": {"captured": {}}, "build": {"route": "lift", "passes": "default<O3>"}}
candidates = [{}, *blocks, lifted]
waiting = [{"archive": number, "kernel": kernel, "candidate": candidate} for candidate in candidates]
group, tried = f"example {os.getpid()}", {}
while waiting:  # as many at a time as the queue has room for
    jobs = json.load(ask("POST", "/v1/jobs", {"group": group, "requests": waiting}))["jobs"]
    tried.update((job, waiting.pop(0)["candidate"]) for job in jobs)
    time.sleep(1 if waiting else 0)
for line in ask("GET", f"/v1/events?done=true&group={group.replace(' ', '%20')}"):
    event = json.loads(line).get("event")
    if event and event["job"] in tried:
        outcome, score = event["state"]["done"], event["state"]["done"]["score"]
        ratio = f"{score['ratio']['median']:.3f} of the original's time" if score else outcome["reason"] or ""
        print(f"{outcome['verdict']:<10} {ratio:<32} {json.dumps(tried.pop(event['job']))}", flush=True)
    if not tried:
        break
