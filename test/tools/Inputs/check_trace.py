"""check_trace.py TRACE [NAME...]: a trace that Perfetto shows: its form, that stretches lie within those that they began in, and that
these stand in it in this order of their starts (of stretches of one name the first). @NAME: on a device's track, at any place."""

import json
import sys

trace = json.load(open(sys.argv[1]))
events = trace["traceEvents"]


def expect(good, *what):
    if not good:
        sys.exit(" ".join(map(str, what)))


names = {}
for event in events:
    if event["ph"] == "M":
        names[event["name"], event["pid"], event["tid"]] = event["args"]["name"]
spans = [event for event in events if event["ph"] == "X"]
expect(len(spans) + sum(event["ph"] == "M" for event in events) == len(events), "other kinds of events")
expect(names.get(("process_name", 1, 0)) == "minic", names)
last = -1.0
for span in spans:
    expect(span["ts"] >= last and span["dur"] >= 0, "not in order:", span)
    last = span["ts"]
    expect(("thread_name", span["pid"], span["tid"]) in names, "a track without a name:", span)
for key in {(span["pid"], span["tid"]) for span in spans}:
    open_spans = []
    for span in (one for one in spans if (one["pid"], one["tid"]) == key):
        end = span["ts"] + span["dur"]
        while open_spans and open_spans[-1] <= span["ts"]:
            open_spans.pop()
        expect(not open_spans or end <= open_spans[-1] + 1e-3, "reaches out of what it began in:", span)
        open_spans.append(end)

position = 0
for name in sys.argv[2:]:
    process, name = (2, name[1:]) if name.startswith("@") else (1, name)
    found = [i for i, span in enumerate(spans) if span["pid"] == process and span["name"].startswith(name)]
    expect(found, "no", name, "among", sorted({span["name"] for span in spans}))
    first = spans[found[0]]
    if process == 2:
        continue
    expect(first["ts"] >= position, name, "starts too early")
    position = first["ts"]
for span in spans:
    if span["pid"] == 2:
        expect(span["args"]["timed by"] == "events around the launch", span)
        launch = [one for one in spans if one["pid"] == 1 and one["name"] == "launch " + span["name"]]
        expect(launch and {"ops", "grid", "threads"} <= launch[0]["args"].keys(), "no launch of", span)
        # The device begins after the host began to ask for it: the clocks agree to a millisecond.
        expect(any(one["ts"] <= span["ts"] + 1000 for one in launch), "before its launch:", span)
print(len(spans), "stretches")
