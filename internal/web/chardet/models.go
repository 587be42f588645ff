package chardet

import "unicode"

// language is the letters of a language beyond ASCII, or all of another script, most frequent first, without
// capitals.
type language struct {
	letters string
	latin   bool // its words have ASCII letters as well
}

// The languages. Few places matter.
var (
	russian   = language{"оеаинтсрвлкмдпуяыьгзбчйхжшюцщэфъё", false}
	ukrainian = language{"оанивтерсікудлмпязьбгйчхцжюшщєїфґ", false}
	bulgarian = language{"аиоетнрсвлкдпмзгяъубчцжйщхфшюь", false}
	serbian   = language{"аоиенрстукјвдпмлзгбшчцжњћхђљфџ", false}
	greek     = language{"αοιετσνηυρπκμλςγάίωόδέθήχύφβώξζψϊϋΐΰ", false}
	hebrew    = language{"יוהלאתרבשמנעקדפחגטצכםןסזךץף", false}
	arabic    = language{"الينموتربعدسفكهحجشقصخثطضغذزظأةىإءآئؤ", false}
	persian   = language{"اینردهتمشوبسزگخکلفعقچحصجپآغطضئذژظثء", false}
	thai      = language{"านรอกเง่้ยัมลิีวดทสตะปบค์หแุจพชขใไโูืถผำ็ซธึศณภษญฐฟฉฮๆ", false}

	german     = language{"üäöß", true}
	french     = language{"éèàêçôîûùâëïœæÿ", true}
	spanish    = language{"óíáéñúü", true}
	portuguese = language{"ãçáéíõóêâúôà", true}
	italian    = language{"èàòùìé", true}
	swedish    = language{"äåöé", true}
	danish     = language{"øåæé", true}
	icelandic  = language{"áíðéöþóúýæ", true}
	turkish    = language{"ıüşğçöâî", true}
	polish     = language{"ąęłóśżćńź", true}
	czech      = language{"íáéěřžýščůúťďňó", true}
	slovak     = language{"áíéčýžšúľťňôóďäĺŕ", true}
	hungarian  = language{"áéóöíőüúű", true}
	romanian   = language{"ăţîşâ", true}
	croatian   = language{"čšžćđ", true}
	lithuanian = language{"ėšįųžčąūę", true}
	latvian    = language{"āīēšļņūģķčž", true}
	estonian   = language{"äõüöšž", true}
)

var western = []language{german, french, spanish, portuguese, italian, swedish, danish, icelandic}

var central = []language{polish, czech, slovak, hungarian, romanian, croatian}

// charsets are the encodings with one byte per character and their languages. Of those that differ in signs only, the
// one with more is here.
var charsets = []struct {
	name      string
	languages []language
}{
	{Default, western},
	{"windows-1251", []language{russian, ukrainian, bulgarian, serbian}},
	{"koi8-r", []language{russian}},
	{"koi8-u", []language{ukrainian}},
	{"iso-8859-5", []language{russian, ukrainian, bulgarian, serbian}},
	{"ibm866", []language{russian}},
	{"windows-1253", []language{greek}},
	{"iso-8859-7", []language{greek}},
	{"windows-1255", []language{hebrew}},
	{"windows-1256", []language{arabic, persian}},
	{"iso-8859-6", []language{arabic}},
	{"windows-874", []language{thai}},
	{"windows-1254", []language{turkish}},
	{"windows-1250", central},
	{"iso-8859-2", central},
	{"windows-1257", []language{lithuanian, latvian, estonian}},
}

type multiByte struct {
	name    string
	common  []share
	script  *unicode.RangeTable // its characters
	any     float64             // the probability of one that is not common
	chances map[rune]float64    // those of the common ones
}

// share is characters that make up a part of a text, most frequent first.
type share struct {
	letters string
	part    float64
}

var eastAsian = []multiByte{
	{name: "shift_jis", common: japanese, script: unicode.Han, any: 1.2e-4},
	{name: "euc-jp", common: japanese, script: unicode.Han, any: 1.2e-4},
	{name: "gbk", common: []share{{simplified, 0.4}, {wide, 0.12}}, script: unicode.Han, any: 1.5e-4},
	{name: "big5", common: []share{{traditional, 0.4}, {wide, 0.12}}, script: unicode.Han, any: 1.5e-4},
	{name: "euc-kr", common: []share{{hangul, 0.6}, {wide, 0.02}}, script: unicode.Hangul, any: 3e-4},
}

var japanese = []share{{hiragana, 0.5}, {katakana, 0.08}, {kanji, 0.1}, {wide, 0.1}}

// usual are signs of any text, without ASCII.
const usual = "“”‘’„‚«»‹›–—…·•§©®°№€™\u00a0¿¡"

// The most frequent characters of languages with thousands: about four in ten of a Chinese text are among these
// hundred.
const (
	simplified  = "的一是不了在人有我他这个们中来上大为和国地到以说时要就出会可也你对生能而子那得于着下自之年过发后作里用道行所然家种事成方多经么去法学如都同现当没动面起看定天分还进好小部其些主样理心她本前开但因只从想实"
	traditional = "的一是不了在人有我他這個們中來上大為和國地到以說時要就出會可也你對生能而子那得於著下自之年過發後作裡用道行所然家種事成方多經麼去法學如都同現當沒動面起看定天分還進好小部其些主樣理心她本前開但因只從想實"
	hangul      = "이다의는에을가고하지로한기서도사를어자인대은리시나아그들스일있정수보전부상해제것적장마라여비원조면소게니만안연신주성과오습"
	hiragana    = "のにたいをはしるとがてでなれかさっあらりこもくきまうよせそつどけだじばえみわめちやべへお"
	katakana    = "ンスルトアイラリクシカタロドマテレコナメサフッキプィオ"
	kanji       = "日一人年大十二本中長出三時行見月後前生五間上東四今金九入学高円子外八六下来気小七山話女北午百書先名川千水半男西電校語土木聞食車何南万毎白天母火右読友左休父雨"
	wide        = "、。，．・：；？！「」『』（）《》“”…—ー　"
)
