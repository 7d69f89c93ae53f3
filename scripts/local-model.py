"""What a run of scripts/local-model.sh took, as R3 and as the server say it, and what became of the model's answers.

    local-model.py STATUS LEDGER METRICS

STATUS is what `r3-evolve status --json` says, LEDGER the run's models.jsonl, METRICS what llama-server says under /metrics. Ends with 1
when no answer was taken apart, when tokens differ, or when the best variant was not verified.
"""

import collections
import json
import re
import sys

status, ledger, metrics = sys.argv[1:4]
with open(status) as file:
    run = json.load(file)
with open(metrics) as file:
    served = {
        name: int(float(value))
        for name, value in re.findall(r"^llamacpp:(\w+) ([0-9.e+]+)$", file.read(), re.M)
    }

# --- What it took ---

sent, back = {}, {}
with open(ledger) as file:
    for line in filter(str.strip, file):
        entry = json.loads(line)
        if "sent" in entry:
            sent[entry["sent"]["number"]] = entry["sent"]
        elif "back" in entry:
            back[entry["back"]["number"]] = entry["back"]["spent"]
wrong = []
for model in sorted({entry["model"] for entry in sent.values()}):
    mine = [number for number, entry in sent.items() if entry["model"] == model]
    came = [back[number] for number in mine if number in back]
    usage = collections.Counter()
    for spent in came:
        usage.update({name: spent["usage"][name] for name in ("prompt", "cached", "completion")})
    failed = sum(spent["failed"] for spent in came)
    share = usage["cached"] / max(usage["prompt"], 1)
    seconds = sum(spent["seconds"] for spent in came)
    print(f"{model:<10} {len(mine)} requests, {len(came) - failed} answered, {failed} failed or given up at the end, {len(mine) - len(came)} not back")
    print(f"           {usage['prompt']} tokens of prompts ({share:.0%} from the server's cache), {usage['completion']} of answers, {seconds:.0f} s")
    if any(spent["usage"]["estimated"] for spent in came if not spent["failed"]):
        wrong.append(f"{model}: the server did not say all tokens of an answer, R3 estimated them")

# What failed, or was under way when the search ended, the server may have counted in part or not at all.
ours, open_ones = collections.Counter(), []
for number, entry in sent.items():
    if not entry["completion"]:
        continue  # vectors are not in the server's sums
    spent = back.get(number)
    if spent and not spent["failed"]:
        usage = spent["usage"]
        ours.update({"prompt": usage["prompt"] - usage["cached"], "completion": usage["completion"]})
    else:
        open_ones.append(entry)
for name, theirs in (("prompt", served["prompt_tokens_total"]), ("completion", served["tokens_predicted_total"])):
    most = ours[name] + sum(entry[name] for entry in open_ones)
    word = "tokens of prompts read" if name == "prompt" else "tokens of answers written"
    print(f"{word}: {theirs} by the server's own count, {ours[name]} by R3's" + (f", up to {most} with what failed or was under way at the end" if most > ours[name] else ""))
    if not ours[name] <= theirs <= most:
        wrong.append(f"{word}: {theirs} by the server's count, {ours[name]} to {most} by R3's")

# --- What became of the answers ---

variants = {(one["slot"], one["turn"]): one for one in run["variants"]}
endings = {one["slot"]: (one["closing"] or {}).get("ended") for one in run["slots"]}
became = collections.Counter()
for request in run["requests"]:
    if request["spent"] is None:
        became["no answer yet at the end"] += 1
        continue
    if request["failure"]:
        became["failed: " + str(request["failure"])[:100]] += 1
        continue
    variant = variants.get((request["slot"], request["turn"]))
    ended = endings.get(request["slot"])
    if variant:
        became["compiled and judged: " + str(variant["verdict"])] += 1
    elif isinstance(ended, dict) and "duplicate" in ended:
        became["a text that was known"] += 1
    elif isinstance(ended, dict) and "unusable" in ended:
        became["of no use: " + ended["unusable"].split("\n")[0][:100]] += 1
    else:
        became["of no use, and told so"] += 1
print()
print("answers:")
for what, count in became.most_common():
    print(f"  {count:3} {what}")
taken = sum(count for what, count in became.items() if not what.startswith(("failed", "no answer")))
if not taken:
    wrong.append("no answer was taken apart")

# --- The best ---

summary = run["summary"] or {}
best = summary.get("best")
held = [launch["verdict"] for launch in summary.get("held_out", [])]
if not best or not summary.get("claim") or any(verdict != "right" for verdict in held):
    wrong.append(f"the best is not verified: {summary.get('reason')}")
else:
    lineage = next(one["lineage"] for one in run["variants"] if one["number"] == best["variant"])
    by = lineage["by"] if lineage["operator"] != "rewrite" else "the rewrite " + lineage["by"]
    print(f"the best: variant {best['variant']} by {by or lineage['operator']}, {best['ratio']['median']:.3f} of the captured binary's time; {summary['reason']}")
for what in wrong:
    print("error: " + what, file=sys.stderr)
sys.exit(1 if wrong else 0)
