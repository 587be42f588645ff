// Package control decides how fast a host may be asked.
package control
