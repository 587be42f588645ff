"""Reads an archive with warcio, which verifies its digests, and prints a line "bad URL" for
each record whose digest it finds wrong; then the index that cdxj-indexer, pywb's own, makes.
Usage: python3 read.py ARCHIVE
"""
import sys

from cdxj_indexer.main import CDXJIndexer
from warcio.archiveiterator import ArchiveIterator

archive = sys.argv[1]
with open(archive, "rb") as stream:
    for record in ArchiveIterator(stream, check_digests=True):
        while record.content_stream().read(1 << 20):
            pass
        if record.digest_checker.passed is False:
            print("bad", record.rec_headers.get_header("WARC-Target-URI"), flush=True)
CDXJIndexer("-", [archive], sort=True).process_all()
