"""The site of the comparison for Scrapy: page after page, with no end."""

import itertools

import scrapy


class Pages(scrapy.Spider):
    name = "pages"

    def start_requests(self):
        # Scrapy takes the next one when it has room, so that there is no list to run dry.
        for n in itertools.count():
            yield scrapy.Request(f"{self.page}{n}")

    def parse(self, response):
        return None
