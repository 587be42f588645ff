package config

// fleetFields are what a crawl that several processes share has in common, and who we are in it.
var fleetFields = []field{
	{
		path: "fleet.redis", kind: kindText, flag: "redis",
		doc: "URL of the Redis or Valkey of a crawl that several processes share, ${NAME} in it for a variable of the environment; empty = one process", example: "rediss://crawl:${REDIS_PASSWORD}@redis.example.com:6380",
		check: redisURL, redact: redactRedis,
	},
	{
		path: "fleet.ca_file", kind: kindText, flag: "redis-ca-file",
		doc: "PEM file of authorities, beside the system's, that vouch for that Redis with TLS; empty = none", example: "/etc/ssl/redis-ca.pem",
	},
	{
		path: "fleet.password_file", kind: kindText, flag: "redis-passfile",
		doc: "file with the password of that Redis and nothing else; empty = the one in its URL, if any", example: "/run/secrets/redis",
	},
	{
		path: "fleet.job", kind: kindText, flag: "job",
		doc: "name of that crawl, letters, digits, dots, hyphens and underscores; the first process makes it, others join; empty = none", example: "news-2026-11",
		check: jobName,
	},
	{
		path: "fleet.worker", kind: kindText, flag: "worker",
		doc: "name of this process in it, which stands for {worker} in names of files; empty = that of the machine and the number of the process", example: "node-7",
		check: workerName,
	},
	// A dead process is missed that long, and a slow one must not be taken for dead.
	{
		path: "fleet.lease", kind: kindDuration, def: "15s", min: "1s", max: "10m", flag: "lease",
		doc: "how long a process that is not heard of keeps its hosts",
	},
	// Several times the masters that a cluster may grow to, and few enough to look at all.
	{
		path: "fleet.partitions", kind: kindInt, unit: "partitions", def: "64", min: "1", max: "1024",
		doc: "parts in which a new job is stored, each on one server of a cluster; a job keeps its own",
	},
	// A failover and an operator's lunch.
	{
		path: "fleet.give_up", kind: kindDuration, def: "15m", min: "1s", max: "24h",
		doc: "how long to try again while Redis does not answer, before the process ends",
	},
}
