"""The live page: a walk that is watched while it goes on.

`session` lets the library's own engine walk, `server` shows it in a browser, `explain` writes a
page that needs neither: a twin of the rule in JavaScript (static/twin.js) walks in the browser.
"""
