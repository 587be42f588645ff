package sqlitedb

// WithSyncDir is cfg, but that directories are synced by sync.
func WithSyncDir(cfg Config, sync func(dir string)) Config {
	cfg.syncDir = sync
	return cfg
}
