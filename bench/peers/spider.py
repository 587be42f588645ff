"""The site of the comparison for Scrapy: every page of the host that a link leads to."""

import urllib.parse

import scrapy
from scrapy.linkextractors import LinkExtractor


class Site(scrapy.Spider):
    name = "site"

    def start_requests(self):
        host = urllib.parse.urlsplit(self.seed).netloc  # with the port, or nothing matches
        # Scrapy would leave out what looks like no page by its name.
        self.links = LinkExtractor(allow_domains=[host], deny_extensions=[])
        yield scrapy.Request(self.seed)

    def parse(self, response):
        if isinstance(response, scrapy.http.HtmlResponse):
            if getattr(self, "items", None):
                yield {"url": response.url}
            for link in self.links.extract_links(response):
                yield scrapy.Request(link.url)
