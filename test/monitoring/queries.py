"""queries.py PROMETHEUS FOLDER: tests that Prometheus evaluates every rule of alerts.yaml, and answers every query of grafana.json."""
import json, re, sys, time, urllib.error, urllib.parse, urllib.request

server, folder = sys.argv[1:]
failed = False


def verdict(good, what, more=""):
    global failed
    failed = failed or not good
    print(("ok - " if good else "not ok - ") + what + ("" if good else f"\n{more}"), flush=True)


def ask(path, **parameters):
    try:
        with urllib.request.urlopen(f"{server}/api/v1/{path}?{urllib.parse.urlencode(parameters)}", timeout=60) as answer:
            return json.load(answer)
    except urllib.error.HTTPError as failure:
        return json.load(failure)
    except OSError as failure:  # it is still starting
        return {"status": "error", "error": str(failure)}


def samples(query):
    answer = ask("query", query=query)
    return answer["data"]["result"] if answer["status"] == "success" else None


def comes(query, count):
    for _ in range(600):
        if len(samples(query) or []) >= count:
            return True
        time.sleep(0.5)
    return False


# A rate needs two scrapes of each target.
for job in ("exporter", "file"):
    verdict(comes(f'count_over_time(shedlock_lock_held{{job="{job}"}}[1m]) > 2', 4), f"Prometheus scrapes the {job}", ask("targets"))
verdict(comes('count_over_time(shedlock_schedule_run_under_way{job="schedules"}[1m]) > 2', 2), "Prometheus scrapes the schedules", ask("targets"))
verdict(comes('ALERTS{alertname="ShedlockLastRunFailed", name="report"}', 2), "a failed run is on its way to an alert", ask("rules"))


def labels(job):
    return sorted(str(sorted((k, v) for k, v in s["metric"].items() if k in ("__name__", "name", "outcome")))
                  for s in samples(f'{{job="{job}", __name__=~"shedlock_.*"}}') or [])


verdict(labels("exporter") == labels("file") != [], "both targets have the same series", f'{labels("exporter")}\n{labels("file")}')

rules = [rule for group in ask("rules")["data"]["groups"] for rule in group["rules"]]
alerts = [(rule["name"], rule["query"]) for rule in rules]
panels = json.load(open(f"{folder}/grafana.json"))["panels"]
shown = [(panel["title"], target["expr"].replace("$name", ".*"))
         for panel in panels for target in panel["targets"]]
for rule in rules:
    verdict(rule["health"] == "ok", f'alerts.yaml: {rule["name"]} is evaluated', rule)
for title, query in shown:
    verdict(bool(samples(query)), f"grafana.json: {title} has something to show", ask("query", query=query))
known = set(ask("label/__name__/values")["data"])
for metric in sorted(set(re.findall(r"\bshedlock[_:][a-z_]+", " ".join(query for _, query in alerts + shown)))):
    verdict(metric in known, f"{metric} is a metric")
sys.exit(failed)
