// express-rate-limit, @fastify/rate-limit, koa-ratelimit or rate-limiter-flexible: node server.js HOST PORT NAME SETTING
// The lines of the log are those that internal/lab/realserver reads.
const [host, port, name, setting] = process.argv.slice(2)
const page = '<!DOCTYPE html><title>A page</title><p>The same small page under every query.\n'
const log = (at, status, after, method, url) =>
  process.stdout.write(`at=${(at / 1000).toFixed(3)} status=${status} after=${after || '-'} request=${method} ${url}\n`)

// The application fails while this file is there.
const present = () => { if (require('fs').existsSync('away')) throw new Error('the application is away') }

const express = (limit) => {
  const app = require('express')()
  app.disable('etag')
  app.use((req, res, next) => {
    const at = Date.now()
    res.on('finish', () => log(at, res.statusCode, res.getHeader('Retry-After'), req.method, req.originalUrl))
    next()
  })
  app.use(limit)
  app.get('/page.html', (req, res) => { present(); res.type('html').send(page) })
  app.listen(port, host)
}

const start = {
  'express-rate-limit': {
    a: () => express(require('express-rate-limit').rateLimit({ windowMs: 15000, limit: 150, standardHeaders: 'draft-8', legacyHeaders: false })),
    b: () => express(require('express-rate-limit').rateLimit({ windowMs: 60000, limit: 900 })),
    c: () => express(require('express-rate-limit').rateLimit({ windowMs: 20000, limit: 260, standardHeaders: 'draft-6', legacyHeaders: false })),
    d: () => express(require('express-rate-limit').rateLimit({ windowMs: 12000, limit: 200, standardHeaders: 'draft-7', legacyHeaders: false })),
  },
  'rate-limiter-flexible': {
    a: () => express(flexible({ points: 30, duration: 2 })),
    b: () => express(flexible({ points: 100, duration: 5, blockDuration: 10 })),
    c: () => express(flexible({ points: 72, duration: 6, blockDuration: 6 })),
  },
  '@fastify/rate-limit': {
    a: () => fastify({ max: 80, timeWindow: 4000 }),
    b: () => fastify({ max: 25, timeWindow: 1000 }),
    c: () => fastify({ max: 210, timeWindow: 15000 }),
  },
  'koa-ratelimit': {
    a: () => koa({ max: 90, duration: 6000 }),
    b: () => koa({ max: 500, duration: 30000, disableHeader: true }),
    c: () => koa({ max: 48, duration: 3000, disableHeader: true }),
  },
}

function flexible (options) {
  const limiter = new (require('rate-limiter-flexible').RateLimiterMemory)(options)
  return (req, res, next) => limiter.consume(req.ip).then(() => next(), () => res.status(429).send('Too Many Requests'))
}

async function fastify (options) {
  const app = require('fastify')()
  app.addHook('onRequest', async (req) => { req.at = Date.now() })
  app.addHook('onResponse', async (req, reply) => log(req.at, reply.statusCode, reply.getHeader('retry-after'), req.method, req.url))
  await app.register(require('@fastify/rate-limit'), options)
  app.get('/page.html', async (req, reply) => { present(); return reply.type('text/html').send(page) })
  await app.listen({ host, port: Number(port) })
}

function koa (options) {
  const app = new (require('koa'))()
  app.use(async (ctx, next) => {
    const at = Date.now()
    ctx.res.on('finish', () => log(at, ctx.res.statusCode, ctx.res.getHeader('Retry-After'), ctx.method, ctx.url))
    await next()
  })
  app.use(require('koa-ratelimit')({ driver: 'memory', db: new Map(), id: (ctx) => ctx.ip, ...options }))
  app.silent = true // of errors
  app.use((ctx) => { present(); ctx.type = 'html'; ctx.body = page })
  app.listen(port, host)
}

start[name][setting]()
