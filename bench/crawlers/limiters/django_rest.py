# Django REST framework's throttle: python3 django_rest.py HOST PORT RATE
# The lines of the log are those that internal/lab/realserver reads.
import os, sys, time
from django.conf import settings

host, port, rate = sys.argv[1:]
settings.configure(
    ALLOWED_HOSTS=["*"], ROOT_URLCONF=__name__, SECRET_KEY="none",
    REST_FRAMEWORK={
        "DEFAULT_THROTTLE_CLASSES": ["rest_framework.throttling.AnonRateThrottle"], "DEFAULT_THROTTLE_RATES": {"anon": rate},
        "DEFAULT_AUTHENTICATION_CLASSES": [], "DEFAULT_PERMISSION_CLASSES": [], "UNAUTHENTICATED_USER": None,
        "DEFAULT_RENDERER_CLASSES": ["rest_framework.renderers.StaticHTMLRenderer"],
    },
)
import django
django.setup()

from django.core.wsgi import get_wsgi_application
from django.urls import path
from rest_framework.decorators import api_view
from rest_framework.response import Response
from waitress import serve

PAGE = "<!DOCTYPE html><title>A page</title><p>The same small page under every query.\n"

@api_view(["GET"])
def page(request):
    if os.path.exists("away"):
        return Response("", status=503)
    return Response(PAGE)

urlpatterns = [path("page.html", page)]
application = get_wsgi_application()

def logged(environ, start):
    at = time.time()
    def begin(status, headers, *rest):
        after = dict(headers).get("Retry-After", "-")
        sys.stdout.write("at=%.6f status=%s after=%s request=%s %s?%s\n" % (
            at, status[:3], after, environ["REQUEST_METHOD"], environ["PATH_INFO"], environ["QUERY_STRING"]))
        return start(status, headers, *rest)
    return application(environ, begin)

sys.stdout.reconfigure(line_buffering=True)
serve(logged, host=host, port=int(port), threads=4)
