"""A page in headless Chromium: what a script in it finds, and what the console says."""

import html
import json
import os
import re
import shutil
import subprocess
import tempfile

NAMES = ["chromium", "chromium-browser", "google-chrome"]

# Runs once the page has drawn itself; `t` is what it reports.
HARNESS = """
<script>
{
  const t = {}, frame = () => new Promise(done => setTimeout(done, 60));
  const go = async name => { location.hash = name; await frame(); await frame(); };
  const $ = selector => document.querySelector(selector), $$ = selector => [...document.querySelectorAll(selector)];
  const press = (element, key) => element.dispatchEvent(new KeyboardEvent('keydown', {key, bubbles: true, cancelable: true}));
  const report = () => {
    const out = document.createElement('pre');
    out.id = 'test-results';
    out.textContent = JSON.stringify(t);
    document.body.append(out);
  };
  addEventListener('error', event => { t.error = event.message; report(); });
  addEventListener('load', ASYNC () => {
    SCRIPT
    report();
  });
}
</script>
"""


def find():
    return next(filter(None, map(shutil.which, NAMES)), None)


def chromium(arguments, timeout=120):
    """Chromium with a profile of its own; what it writes to stdout and stderr."""
    with tempfile.TemporaryDirectory() as profile:
        command = [find(), "--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--hide-scrollbars",
                   f"--user-data-dir={profile}", "--enable-logging=stderr", *arguments]
        done = subprocess.run(command, capture_output=True, timeout=timeout, stdin=subprocess.DEVNULL)
    return done.stdout.decode(errors="replace"), done.stderr.decode(errors="replace")


def look(page, script="", width=1280, height=900, dark=False, virtual=True, flags=()):
    """What `script` puts into `t`, with the console's lines as `console` and the DOM as `dom`. Virtual time does not wait for timers,
    but stands still while the page works: without it, `performance.now()` is true, and the script must not wait."""
    if virtual:
        script = "try { await frame(); " + script + "\n} catch (error) { t.error = String(error.stack); }"
    harness = HARNESS.replace("ASYNC", "async" if virtual else "").replace("SCRIPT", script)
    with tempfile.NamedTemporaryFile(suffix=".html", dir=os.path.dirname(page) or ".") as copy:
        with open(page, "rb") as file:
            copy.write(file.read() + harness.encode())
        copy.flush()
        flags = [*flags, f"--window-size={width},{height}", "--dump-dom"]
        if virtual:
            flags.append("--virtual-time-budget=60000")
        if dark:
            flags.append("--blink-settings=preferredColorScheme=0")
        dom, log = chromium([*flags, f"file://{os.path.abspath(copy.name)}"])
    found = re.search(r'<pre id="test-results">(.*?)</pre>', dom, re.S)
    result = json.loads(html.unescape(found.group(1))) if found else {"error": "the page did not run its script"}
    result["console"] = [line for line in log.splitlines() if "CONSOLE" in line]
    result["dom"] = dom
    return result


def look_at_frames(frames, script, dark=False):
    """Several pages in one browser, each (page, width) in a frame: what `script` puts into `t` for each. Its `w` is the frame's window,
    its `$`, `$$` and `go` are of the frame."""
    list_of_frames = json.dumps([[f"file://{os.path.abspath(page)}", width] for page, width in frames])
    with tempfile.NamedTemporaryFile("w", suffix=".html") as page:
        page.write("<!doctype html><meta charset=utf-8><meta name=color-scheme content='light dark'><body>")
        page.flush()
        found = look(page.name, """
          t.frames = [];
          for (const [address, width] of %s) {
            const element = document.createElement('iframe');
            element.width = width;
            element.height = 900;
            const loaded = new Promise(done => element.addEventListener('load', done));
            element.src = address;
            document.body.append(element);
            await loaded;
            await frame();
            const w = element.contentWindow, t_of_page = t;
            {
              const t = {}, $ = selector => w.document.querySelector(selector), $$ = selector => [...w.document.querySelectorAll(selector)];
              const go = async name => { w.location.hash = name; await frame(); await frame(); };
              %s
              t_of_page.frames.push(t);
            }
            element.remove();
          }
        """ % (list_of_frames, script), dark=dark, flags=["--allow-file-access-from-files"])
    return found


def screenshot(page, target, width=1280, height=900, dark=False, part=""):
    flags = [f"--window-size={width},{height}", f"--screenshot={os.path.abspath(target)}", "--virtual-time-budget=8000"]
    flags.append(f"--blink-settings=preferredColorScheme={0 if dark else 1}")
    chromium([*flags, f"file://{os.path.abspath(page)}" + (f"#{part}" if part else "")])
