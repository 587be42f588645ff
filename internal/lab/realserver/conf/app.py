# Flask-Limiter with a moving window, and quota headers if HEADERS says so.
import os, sys, time
from flask import Flask, abort, g, request
from flask_limiter import Limiter
from flask_limiter.util import get_remote_address
from waitress import serve

app = Flask(__name__)
PAGE = """{{.Page}}"""

@app.before_request
def arrive():
    g.at = time.time()

def log(response):
    after = response.headers.get("Retry-After", "-")
    sys.stdout.write("at=%.6f status=%d after=%s request=%s %s\n" % (g.at, response.status_code, after, request.method, request.full_path))
    return response

app.after_request(log)  # functions run last registered first: the limiter's headers are in place
Limiter(get_remote_address, app=app, default_limits=["COUNT per PERIOD second"], strategy="moving-window",
        storage_uri="memory://", headers_enabled=HEADERS)

@app.route("/page.html")
def page():
    if os.path.exists("{{.Away}}"):
        abort(503)
    return PAGE

sys.stdout.reconfigure(line_buffering=True)
serve(app, host="{{.Host}}", port={{.Port}}, threads=4)
