-- A state as the program with version 2 of the schema left it when max_pages ended a crawl.
PRAGMA application_id = 1416776820;
PRAGMA user_version = 2;
PRAGMA foreign_keys=OFF;
BEGIN TRANSACTION;
CREATE TABLE meta (
	key   TEXT PRIMARY KEY,
	value TEXT NOT NULL
) STRICT, WITHOUT ROWID;
INSERT INTO meta VALUES('created','2026-11-22T10:58:42Z');
INSERT INTO meta VALUES('fingerprint_key','1520751869446320444');
INSERT INTO meta VALUES('program','Treadlight devel');
INSERT INTO meta VALUES('seeds','http://127.0.0.1:18741/');
INSERT INTO meta VALUES('seeds_done','yes');
INSERT INTO meta VALUES('settings',replace('concurrency: 1\nper_host_max: 8\ndepth: -1\nmax_pages: 5\nmax_pages_per_host: 0\nmax_time: 0\ngrace: 30s\nmax_blocked: 5m\nseeds:\n  file: ""\nscope:\n  mode: host\n  include: []\n  exclude: []\n  scores: []\n  budgets: []\n  resources: false\nrobots:\n  enabled: true\n  max_crawl_delay: 1m\nratelimit:\n  strategy: steer\n  initial_rps: 1\n  min_rps: 0.1\n  max_rps: 10\n  token_bucket_capacity: 1\n  aimd_increase: 0.1\n  aimd_decrease: 0.5\n  latency_target: 1s\n  latency_degrade_factor: 2\n  error_rate_threshold: 0.5\n  min_samples_to_trip: 10\n  consecutive_fail_threshold: 5\n  open_state_duration: 15s\n  half_open_probes: 2\n  retry_base_delay: 200ms\n  retry_max_delay: 30s\n  retry_max_attempts: 3\n  max_retry_after: 1h\n  min_delay: 0\n  global_rps: 0\n  ip_rps: 0\n  site_rps: 0\n  global_concurrency: 0\n  global_bytes: 0B\n  remember: ""\n  stats_window: 30s\n  stats_bucket: 2s\n  domain_state_ttl: 10m\n  shards: 16\n  max_domains: 100000\nhosts: []\nfetch:\n  user_agent: ""\n  contact: ""\n  headers: []\n  timeout: 30s\n  connect_timeout: 10s\n  header_timeout: 20s\n  body_timeout: 15s\n  max_body: 10MiB\n  max_redirects: 10\n  http2: false\n  insecure: false\n  allow_private: false\nresilience: {}\noutput:\n  path: "records.jsonl"\n  format: jsonl\n  overwrite: false\n  text: false\n  links: true\n  digest: true\n  events: ""\nstate:\n  dir: ""\nfrontier:\n  max_urls: 10000000\n  max_hosts: 1000000\n  resident: 131072\n  order: found\nstats:\n  path: ""\n  interval: 10s\nlisten:\n  addr: ""\n  token: ""\nlog:\n  level: info\n  format: text\n  progress: auto\n  quiet: false\n  verbose: false\n','\n',char(10)));
INSERT INTO meta VALUES('settings_program','Treadlight devel');
CREATE TABLE hosts (
	id      INTEGER PRIMARY KEY,
	name    TEXT    NOT NULL UNIQUE,
	known   INTEGER NOT NULL,
	dormant INTEGER
, refused INTEGER NOT NULL DEFAULT 0) STRICT;
INSERT INTO hosts VALUES(1,'127.0.0.1:18741',7,NULL,1);
CREATE TABLE urls (
	id        INTEGER PRIMARY KEY,
	host      INTEGER NOT NULL,
	rank      INTEGER NOT NULL,
	depth     INTEGER NOT NULL,
	hops      INTEGER NOT NULL,
	seed      INTEGER NOT NULL,
	referrer  INTEGER NOT NULL,
	queued_at INTEGER NOT NULL,
	url       TEXT    NOT NULL
) STRICT;
INSERT INTO urls VALUES(1,1,0,0,0,1,0,1795345122356,'http://127.0.0.1:18741/');
INSERT INTO urls VALUES(2,1,0,1,0,0,1,1795345123361,'http://127.0.0.1:18741/a.html');
INSERT INTO urls VALUES(3,1,0,1,0,0,1,1795345123361,'http://127.0.0.1:18741/b.html');
INSERT INTO urls VALUES(4,1,0,1,0,0,1,1795345123361,'http://127.0.0.1:18741/missing');
INSERT INTO urls VALUES(5,1,0,1,0,0,1,1795345123361,'http://127.0.0.1:18741/private/x');
INSERT INTO urls VALUES(6,1,0,1,0,0,1,1795345123361,'http://127.0.0.1:18741/c.html');
INSERT INTO urls VALUES(7,1,0,2,0,0,2,1795345123971,'http://127.0.0.1:18741/d.html');
CREATE TABLE queue (
	host     INTEGER NOT NULL,
	rank     INTEGER NOT NULL,
	url      INTEGER NOT NULL,
	attempts INTEGER NOT NULL,
	returns  INTEGER NOT NULL,
	strikes  INTEGER NOT NULL,
	PRIMARY KEY (host, rank, url)
) STRICT, WITHOUT ROWID;
INSERT INTO queue VALUES(1,0,7,0,0,0);
CREATE TABLE visits (
	id      INTEGER PRIMARY KEY,
	url     INTEGER NOT NULL,
	at      INTEGER NOT NULL,
	status  INTEGER NOT NULL,
	class   TEXT,
	bytes   INTEGER NOT NULL,
	retries INTEGER NOT NULL
) STRICT;
INSERT INTO visits VALUES(1,1,1795345123357,200,NULL,129,0);
INSERT INTO visits VALUES(2,2,1795345123969,200,NULL,38,0);
INSERT INTO visits VALUES(3,3,1795345124419,200,NULL,17,0);
INSERT INTO visits VALUES(4,4,1795345124778,404,NULL,335,0);
INSERT INTO visits VALUES(5,5,1795345124780,0,'robots',0,0);
INSERT INTO visits VALUES(6,6,1795345125079,200,NULL,17,0);
CREATE TABLE rates (
	host        TEXT PRIMARY KEY,
	used        INTEGER NOT NULL,
	rate        REAL    NOT NULL,
	pause_ns    INTEGER NOT NULL,
	retry_until INTEGER,
	held_until  INTEGER
) STRICT, WITHOUT ROWID;
CREATE TABLE sinks (
	path    TEXT PRIMARY KEY,
	format  TEXT    NOT NULL,
	bytes   INTEGER NOT NULL,
	records INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
INSERT INTO sinks VALUES('records.jsonl','jsonl',2915,6);
CREATE INDEX hosts_dormant ON hosts (dormant) WHERE dormant IS NOT NULL;
CREATE INDEX urls_seed ON urls (id) WHERE seed = 1;
CREATE VIEW pages AS SELECT
	u.id, u.url, h.name AS host, iif(v.url IS NULL, 'queued', 'done') AS state,
	u.depth, u.hops, u.seed, r.url AS referrer,
	datetime(u.queued_at / 1000, 'unixepoch') AS queued_at,
	datetime(v.at / 1000, 'unixepoch') AS visited_at,
	v.status, v.class, v.bytes, v.retries
FROM urls u JOIN hosts h ON h.id = u.host
LEFT JOIN visits v ON v.url = u.id
LEFT JOIN urls r ON r.id = u.referrer;
CREATE VIEW broken AS SELECT
	u.url, v.status, v.class, r.url AS referrer, datetime(v.at / 1000, 'unixepoch') AS visited_at
FROM visits v JOIN urls u ON u.id = v.url
LEFT JOIN urls r ON r.id = u.referrer
WHERE v.status >= 400 OR v.status = 0;
COMMIT;
