package assembly

import (
	"strings"

	"github.com/treadlight/crawl/internal/config"
	"github.com/treadlight/crawl/internal/lazy"
)

// programError is an error whose text names fields of a program where the command has settings and flags.
type programError struct {
	error
	text string
}

func (e *programError) Error() string { return e.text }
func (e *programError) Unwrap() error { return e.error }

func reworded(err error, text string) error {
	if text == err.Error() {
		return err
	}
	return &programError{err, text}
}

// InProgram returns an error whose lines may begin with settings, in the terms of package crawl: settings are its
// fields. What else a line says may be the program's own, such as the name of a file, and stays as it is.
func InProgram(err error) error {
	if err == nil {
		return nil
	}
	return reworded(err, settingFirst().ReplaceAllStringFunc(err.Error(), func(path string) string { return config.InProgram(programRoot, path) }))
}

// FileInProgram is InProgram for the error of a file for records or items.
func FileInProgram(err error) error { return reworded(err, ofFiles.Replace(err.Error())) }

// ArchiveInProgram is InProgram for the error of a directory or file for archives.
func ArchiveInProgram(err error, name string) error { return reworded(err, TextInProgram(err, name)) }

// TextInProgram returns the text of an error in the terms of package crawl, except for name, which stays as it is. It
// is empty without an error.
func TextInProgram(err error, name string) string {
	const mask = "\x00"
	if err == nil {
		return ""
	}
	text := err.Error()
	if name != "" {
		text = strings.ReplaceAll(text, name, mask)
	}
	text = config.InProgram(programRoot, ofVerbs.Replace(verbs().ReplaceAllString(text, "$1")))
	return strings.ReplaceAll(text, mask, name)
}

// programRoot is the struct of package crawl whose fields are the settings.
const programRoot = "Options"

var (
	// settingFirst matches a setting at the beginning of a line.
	settingFirst = lazy.Regexp(`(?m)^[a-z]+\.[a-z_]+\b`)
	// verbs matches advice to run the command; ofVerbs and ofFiles replace it by what a program does.
	verbs   = lazy.Regexp(`('crawl (?:resume|again)) [^']*'`)
	ofVerbs = strings.NewReplacer("by 'crawl resume", "by OpenState", "by 'crawl again", "by OpenAgain",
		"that --state or --output was given", "of Options.StateDir", "--unfinished", "Again.Unfinished")
	ofFiles = strings.NewReplacer("add --overwrite to replace it, or choose another file", "remove it, choose another file, or give the position to go on from",
		", or begin the crawl anew with --overwrite, without 'resume'", ", or begin the crawl anew with a file that is not there",
		"give the same --field as before, or go on with the program that began it; 'crawl --overwrite' begins anew", "give the same fields as before, or begin anew with a file that is not there")
)
