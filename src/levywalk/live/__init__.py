"""The live page shows a walk while it runs.

`session` lets the library's own engine walk, `server` shows it in a browser, `explain` writes a
page that needs neither: a twin of the rule in JavaScript (static/twin.js) walks in the browser.
"""
