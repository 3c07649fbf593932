"""The elements of the pictures."""
import html
import os

# Plain colours, because many viewers do not support CSS variables. @media overrides them for readers who prefer dark pages.
# The white words on the bars are readable on both (a contrast of at least 4.5).
STYLE = '''<style>
 text { fill: #1f2328; font: 13px sans-serif; } .dim { fill: #656d76; } .bad { fill: #c62f2f; } .back { fill: #ffffff; }
 .middle { text-anchor: middle; } .end { text-anchor: end; } .code { font: 13px monospace; } .bold { font-weight: bold; }
 .line { stroke: #656d76; fill: none; } .dots { stroke-dasharray: 3 4; } .tip { fill: #656d76; } .wrong { stroke: #c62f2f; stroke-width: 2; fill: none; }
 .one { fill: #1d6fb8; } .two { fill: #227a3e; } .three { fill: #b3261e; } .paused { fill-opacity: .35; } .on { fill: #ffffff; }
 @media (prefers-color-scheme: dark) {
  text { fill: #e6edf3; } .dim { fill: #9198a1; } .bad { fill: #ff7b72; } .back { fill: #151b23; }
  .line { stroke: #9198a1; } .tip { fill: #9198a1; } .wrong { stroke: #ff7b72; } .on { fill: #ffffff; } }
</style>
<marker id="tip" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="8" markerHeight="8" orient="auto"><path d="M0 0L8 4L0 8z" class="tip"/></marker>
'''


def text(x, y, words, kind=''):
    space = ' xml:space="preserve"' if 'code' in kind else ''
    return f'<text x="{x}" y="{y}" class="{kind}"{space}>{html.escape(words)}</text>\n'


def bar(x, y, width, kind, words='', height=26):
    return (f'<rect x="{x}" y="{y}" width="{width}" height="{height}" rx="4" class="{kind}"/>\n'
            + (text(x + width / 2, y + height / 2 + 5, words, 'middle on') if words else ''))


def line(points, kind='line'):
    return f'<path d="M{points}" class="{kind}"/>\n'


def arrow(points):
    return f'<path d="M{points}" class="line" marker-end="url(#tip)"/>\n'


def write(name, title, width, height, *parts):
    with open(os.path.join(os.path.dirname(__file__), name), 'w', encoding='utf-8') as file:
        file.write(f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" height="{height}" role="img">\n'
                   f'<title>{html.escape(title)}</title>\n{STYLE}<rect width="{width}" height="{height}" rx="6" class="back"/>\n{"".join(parts)}</svg>\n')
