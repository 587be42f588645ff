// Package integration tests whole crawls: real sites behind real servers, hostile hosts, states
// that are resumed, the console and the dashboard. Nothing of it is imported.
package integration
