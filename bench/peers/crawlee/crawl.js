// Crawlee's CheerioCrawler: node crawl.js list FILE [PER-MINUTE] | follow URL IN-FLIGHT | keep URL IN-FLIGHT
// list asks for every URL of a file, follow for all pages of a host, and keep does so with its storage on disk,
// from which it goes on when it is started again.
const { CheerioCrawler, Configuration, RequestList, log } = require('@crawlee/cheerio')
const { readFileSync } = require('fs')

const [verb, target, number] = process.argv.slice(2)
log.setLevel(log.LEVELS.OFF) // a line per failure is work of its own
// It asks for less while the machine is busy, which on a machine that others use says nothing of Crawlee.
const common = { autoscaledPoolOptions: { systemStatusOptions: { maxCpuOverloadedRatio: 1 } } }

async function main () {
  if (verb === 'list') {
    const requestList = await RequestList.open(null, readFileSync(target, 'utf8').trim().split('\n'))
    const limit = number ? { maxRequestsPerMinute: Number(number) } : {}
    return new CheerioCrawler({ ...common, ...limit, requestList, requestHandler: async () => {} }, new Configuration({ persistStorage: false })).run()
  }
  const config = new Configuration(verb === 'keep' ? { purgeOnStart: false } : { persistStorage: false })
  const inFlight = { minConcurrency: Number(number), maxConcurrency: Number(number) }
  const crawler = new CheerioCrawler({
    ...common, ...inFlight, respectRobotsTxtFile: true,
    requestHandler: async ({ request, enqueueLinks, pushData }) => {
      await enqueueLinks()
      if (verb === 'keep') await pushData({ url: request.loadedUrl })
    }
  }, config)
  await crawler.run([target])
}
main()
