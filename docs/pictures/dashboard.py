"""Draws dashboard.svg: the panels of docs/monitoring/grafana.json, with the answers of a Prometheus to their queries. Its metrics are
made up: two days in which three of five jobs had a problem."""
import datetime
import json
import os
import subprocess
import tempfile
import time
import urllib.error
import urllib.parse
import urllib.request

from svg import line, text, write

END = datetime.datetime(2026, 11, 24, 8, tzinfo=datetime.timezone.utc).timestamp()
DAY, HOUR, MINUTE = 86400, 3600, 60
STEP = 10 * MINUTE
BEGIN = END - 2 * DAY
MIDNIGHT = END - 8 * HOUR
WIDTH, ROW, HEAD = 860, 24, 26

# Readable on light and dark pages.
COLOURS = {'green': '#2f9e55', 'orange': '#d98e1f', 'red': '#d9534f', 'yellow': '#d9b51f', 'blue': '#3d8bd4'}
LINES = ['#3d8bd4', '#2f9e55', '#d98e1f', '#d9534f', '#9a6fd0', '#1fa5a5', '#c9679a', '#8b949e']


# Runs: when they began, how long they held the lock, and how they ended. A pause is in the list as well.
def story():
    def daily(at, lasts, days=(3, 2, 1, 0)):
        return [(MIDNIGHT - day * DAY + at, lasts + day * 40, 'done') for day in days]

    def often(every, lasts, outcome, since, until):
        return [(t, lasts + t % 7 * 9, outcome) for t in range(int(since), int(until), int(every))]

    failing = MIDNIGHT - 7 * HOUR
    return {
        'nightly': daily(2 * HOUR, 25 * MINUTE),
        # Its host died last night.
        'invoices': daily(3 * HOUR, 40 * MINUTE, days=(3, 2, 1)) + [(MIDNIGHT + 3 * HOUR, 2 * HOUR, 'ran out')],
        'report': often(HOUR, 4 * MINUTE, 'done', BEGIN - 2 * HOUR, END - 10 * MINUTE),
        'import': often(HOUR / 2, 7 * MINUTE, 'done', BEGIN - 2 * HOUR, failing) + often(HOUR / 2, 2 * MINUTE, 'failed', failing, END - 10 * MINUTE),
        'archive': daily(5 * HOUR, 90 * MINUTE, days=(3, 2, 1)) + [(MIDNIGHT - 10 * HOUR, 9 * DAY, 'paused')],
    }


def samples(name, runs, now):
    """The metrics that "shedlock metrics" would print at that time."""
    begun = [run for run in runs if run[0] <= now]
    start, lasts, outcome = begun[-1]
    is_on = now < start + lasts
    done = [at + took for at, took, how in begun if how == 'done' and at + took <= now]
    yield 'lock_held', is_on and outcome != 'paused'
    yield 'lock_paused', is_on and outcome == 'paused'
    yield 'lock_acquired_timestamp_seconds', start
    yield 'lock_last_done_timestamp_seconds', done[-1]
    yield 'lock_last_tick_timestamp_seconds', [at for at, _, how in begun if how != 'paused'][-1]
    yield 'lock_last_duration_seconds', 0 if is_on else lasts
    for each in ('done', 'failed', 'ran out'):
        if not is_on:
            yield f'lock_last_outcome {each}', outcome == each
    yield 'refused_total', 2 * len(begun) + (name == 'report') * 2 * int((now - BEGIN) / HOUR)
    yield 'expired_total', sum(how == 'ran out' and at + took <= now for at, took, how in begun)
    yield 'lost_total', 0


def exposition():
    series = {}
    for name, runs in story().items():
        for now in range(int(BEGIN - HOUR), int(END) + 1, STEP):
            for what, value in samples(name, runs, now):
                metric, _, outcome = what.partition(' ')
                labels = f'name="{name}"' + (f',outcome="{outcome}"' if outcome else '')
                series.setdefault(f'shedlock_{metric}', []).append(f'shedlock_{metric}{{{labels}}} {float(value)} {now}')
    series['ALERTS'] = [f'ALERTS{{alertname="{alert}",alertstate="firing",name="{name}",severity="{how}"}} 1 {int(END)}' for alert, name, how in (
        ('ShedlockNotDone', 'invoices', 'critical'), ('ShedlockLastRunFailed', 'import', 'warning'), ('ShedlockLastRunFailed', 'invoices', 'warning'))]
    return ''.join(f'# TYPE {metric} unknown\n' + '\n'.join(lines) + '\n' for metric, lines in series.items()) + '# EOF\n'


def answers(panels):
    """For each panel, and each of its queries: pairs of labels and values over time."""
    with tempfile.TemporaryDirectory() as folder:
        with open(f'{folder}/metrics', 'w', encoding='utf-8') as file:
            file.write(exposition())
        subprocess.run(['promtool', 'tsdb', 'create-blocks-from', 'openmetrics', f'{folder}/metrics', f'{folder}/data'], check=True, capture_output=True)
        with open(f'{folder}/prometheus.yml', 'w', encoding='utf-8'):
            pass
        address = f'127.0.0.1:{20000 + os.getpid() % 10000}'
        server = subprocess.Popen(['prometheus', f'--config.file={folder}/prometheus.yml', f'--storage.tsdb.path={folder}/data',
                                   '--storage.tsdb.retention.time=100y', f'--web.listen-address={address}'], stderr=subprocess.DEVNULL)
        try:
            return [[ask(address, target) for target in panel['targets']] for panel in panels]
        finally:
            server.terminate()
            server.wait()


def ask(address, target):
    query = target['expr'].replace('$name', '.*')
    when = {'time': END} if target.get('instant') else {'start': BEGIN, 'end': END, 'step': STEP}
    url = f'http://{address}/api/v1/query{"" if target.get("instant") else "_range"}?' + urllib.parse.urlencode({'query': query, **when})
    for _ in range(600):
        try:
            with urllib.request.urlopen(url) as answer:
                found = json.load(answer)['data']['result']
            return [(one['metric'], [(float(t), float(v)) for t, v in one.get('values', [one.get('value')])]) for one in found]
        except urllib.error.HTTPError as failure:
            if failure.code != 503:  # Prometheus is reading the data
                raise
        except OSError:  # Prometheus is starting
            pass
        time.sleep(0.1)
    raise SystemExit('Prometheus does not answer')


def span(seconds):
    days, hours, minutes = int(seconds // DAY), int(seconds // HOUR % 24), int(seconds // MINUTE % 60)
    return f'{days} d {hours} h' if days else f'{hours} h {minutes} min' if hours else f'{minutes} min' if minutes else f'{seconds:.0f} s'


def quantity(value, unit):
    return span(value) if unit == 's' else f'{value:.0f}'


def legend(target, labels):
    return target['legendFormat'].replace('{{name}}', labels.get('name', ''))


def rectangle(x, y, width, height, colour):
    return f'<rect x="{x:.1f}" y="{y:.1f}" width="{width:.1f}" height="{height:.1f}" fill="{COLOURS.get(colour, colour)}"/>\n'


def hours(x, y, width):
    for t in range(int(BEGIN // (DAY / 2) + 1) * DAY // 2, int(END), DAY // 2):
        yield text(round(x + (t - BEGIN) / (END - BEGIN) * width), y, time.strftime('%d %Hh', time.gmtime(t)), 'middle dim small')


# Each of these draws the contents of a panel, below its title, in a box that begins at x, y.
def bargauge(panel, queries, x, y, width, height):
    steps = panel['fieldConfig']['defaults']['thresholds']['steps']
    rows = sorted(queries[0], key=lambda one: one[0]['name'])
    most = max(values[0][1] for _, values in rows)
    for i, (labels, values) in enumerate(rows):
        top, value = round(y + i * height / len(rows)), values[0][1]
        colour = [step['color'] for step in steps if step['value'] is None or value >= step['value']][-1]
        yield text(x, top + 15, legend(panel['targets'][0], labels))
        yield rectangle(x + 70, top + 2, value / most * (width - 150), 18, colour)
        yield text(round(x + 76 + value / most * (width - 150)), top + 15, span(value), 'dim')


def state_timeline(panel, queries, x, y, width, height):
    mapping = panel['fieldConfig']['defaults']['mappings'][0]['options']
    rows, place, shown = sorted(queries[0], key=lambda one: one[0]['name']), width - 70, height - 36
    for i, (labels, values) in enumerate(rows):
        top = round(y + i * shown / len(rows))
        yield text(x, top + 14, legend(panel['targets'][0], labels))
        begin = values[0]
        for now, after in zip(values, values[1:] + [(END + STEP, None)]):
            if after[1] != now[1] or after[0] > now[0] + STEP:
                colour = mapping[str(int(now[1]))]['color']
                yield rectangle(x + 70 + (begin[0] - BEGIN) / (END - BEGIN) * place, top + 2, max((min(now[0] + STEP, END) - begin[0]) / (END - BEGIN) * place, 1), 15, colour)
                begin = after
    yield from hours(x + 70, y + shown + 12, place)
    for i, one in enumerate(sorted(mapping.values(), key=lambda one: one['index'])):
        yield rectangle(x + 70 + 80 * i, y + shown + 20, 10, 10, one['color']) + text(x + 84 + 80 * i, y + shown + 29, one['text'], 'small')


def timeseries(panel, queries, x, y, width, height):
    unit, place = panel['fieldConfig']['defaults'].get('unit'), width - 70
    rows = [(legend(target, labels), values) for target, found in zip(panel['targets'], queries) for labels, values in found]
    rows = sorted(row for row in rows if any(value for _, value in row[1])) or rows
    names = [[]]
    for name, _ in rows:
        if sum(30 + 6.3 * len(one) for one in names[-1] + [name]) > width:
            names.append([])
        names[-1].append(name)
    shown = height - 22 - 15 * len(names)
    most = max(value for _, values in rows for _, value in values) or 1
    for share in (0, 1) if most < 2 else (0, 0.5, 1):
        level = round(y + 6 + (1 - share) * (shown - 8))
        yield line(f'{x + 70} {level}H{x + width}', 'line dots') + text(x + 64, level + 4, quantity(most * share, unit), 'end dim small')
    for i, (_, values) in enumerate(rows):
        points, last = '', (0, None)
        for t, value in values:
            across, down = f'{x + 70 + (t - BEGIN) / (END - BEGIN) * place:.0f}', f'{y + 6 + (1 - value / most) * (shown - 8):.0f}'
            points += f'M{across} {down}h1' if t - last[0] > STEP else f'H{across}' if value == last[1] else f'L{across} {down}'
            last = (t, value)
        yield f'<path d="{points}" fill="none" stroke="{LINES[i % len(LINES)]}" stroke-width="2"/>\n'
    yield from hours(x + 70, y + shown + 14, place)
    i = 0
    for row, words in enumerate(names):
        at, level = x, y + shown + 20 + 15 * row
        for name in words:
            yield rectangle(at, level, 10, 10, LINES[i % len(LINES)]) + text(round(at + 14), level + 9, name, 'small')
            at, i = at + 30 + 6.3 * len(name), i + 1


def table(_, queries, x, y, width, __):
    columns = ['alertname', 'name', 'alertstate', 'severity']
    places = [0, 170, 240, 330]
    rows = [dict(zip(columns, columns))] + sorted((labels for labels, _ in queries[0]), key=lambda one: (one['severity'], one['alertname'], one['name']))
    for i, row in enumerate(rows):
        for column, place in zip(columns, places):
            yield text(x + place, y + 14 + 20 * i, row[column], 'bold' if i == 0 else '')


KINDS = {'bargauge': bargauge, 'state-timeline': state_timeline, 'timeseries': timeseries, 'table': table}


def draw():
    with open(os.path.join(os.path.dirname(__file__), '..', 'monitoring', 'grafana.json'), encoding='utf-8') as file:
        panels = json.load(file)['panels']
    parts, unit = ['<style> .small { font-size: 11px; } </style>\n'], (WIDTH - 16) / 24
    for panel, queries in zip(panels, answers(panels)):
        place = panel['gridPos']
        x, y, width, height = 8 + place['x'] * unit, 8 + place['y'] * ROW, place['w'] * unit, place['h'] * ROW
        parts.append(f'<rect x="{x + 3:.1f}" y="{y + 3:.1f}" width="{width - 6:.1f}" height="{height - 6:.1f}" rx="4" class="line" stroke-opacity=".4"/>\n')
        parts.append(text(round(x + 14), round(y + 22), panel['title'], 'bold'))
        parts += KINDS[panel['type']](panel, queries, round(x + 14), round(y + 8 + HEAD), round(width - 28), round(height - HEAD - 18))
    bottom = max(panel['gridPos']['y'] + panel['gridPos']['h'] for panel in panels) * ROW + 16
    write('dashboard.svg', 'The panels of the Grafana dashboard', WIDTH, bottom, *parts)
