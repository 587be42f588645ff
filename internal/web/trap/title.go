package trap

import "strings"

// titleHash is a hash of a title without its numbers, as those of calendars and counters are
// never the same; zero if nothing is left.
func titleHash(title string) uint64 {
	const most = 128 // what tells titles apart comes first
	h, word := hasher(0), false
	for i := range min(len(title), most) {
		c := title[i]
		isDigit := c >= '0' && c <= '9'
		if isDigit && !word {
			continue
		}
		word = isDigit || c|0x20 >= 'a' && c|0x20 <= 'z' // a digit behind a letter belongs to a name
		h.byte(c)
	}
	if h == 0 {
		return 0
	}
	return final(uint64(h), byHost)
}

// nothings are what pages say in title or heading that are there for any name, in lower
// case: in English, German, French, Spanish, Portuguese, Italian, Dutch, Polish, Russian,
// Chinese, Japanese and Korean.
var nothings = []string{
	"404", "not found", "page not found", "does not exist", "doesn't exist", "no longer available", "no results", "nothing found", "can't be found",
	"nicht gefunden", "existiert nicht", "keine ergebnisse",
	"introuvable", "n'existe pas", "non trouvée", "aucun résultat",
	"no encontrad", "no existe", "sin resultados",
	"não encontrad", "não existe", "non trovat", "non esiste",
	"niet gevonden", "bestaat niet",
	"nie znalezion", "nie istnieje",
	"не найден", "не существует",
	"页面不存在", "未找到", "找不到", "見つかりません", "存在しません", "찾을 수 없",
}

// Nothing reports whether a title or a heading says that there is nothing. It goes by words,
// so a page about error 404 does too: it is no proof by itself.
func Nothing(text string) bool {
	const most = 256 // what a person would read of it
	text = strings.ToLower(text[:min(len(text), most)])
	for _, words := range nothings {
		if strings.Contains(text, words) {
			return true
		}
	}
	return false
}
