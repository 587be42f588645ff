package fields

import (
	"errors"
	"strings"

	"github.com/antchfx/htmlquery"
	"github.com/antchfx/xpath"
	"golang.org/x/net/html"

	"github.com/treadlight/crawl/internal/web/effort"
)

// navigator is a position in a tree that the XPath interpreter moves. Each move costs a step. The interpreter cannot be
// stopped, so a move beyond the budget panics with errSpent.
type navigator struct {
	htmlquery.NodeNavigator
	budget  *effort.Budget
	perByte int // steps of the expression's patterns for each byte of text
}

// copySteps is the cost of a copy. The interpreter keeps copies, so the cost bounds its memory.
const copySteps = 4

var errSpent = errors.New("the page has cost enough")

func navigate(root *html.Node, budget *effort.Budget, perByte int) *navigator {
	return &navigator{*htmlquery.CreateXPathNavigator(root), budget, perByte}
}

func (n *navigator) spend(steps int) bool {
	if !n.budget.Spend(steps) {
		panic(errSpent)
	}
	return true
}

// spendText charges for bytes of text, which are the last part of a text of whole bytes.
func (n *navigator) spendText(bytes, whole int) {
	if !n.budget.AllowCall(whole * n.perByte) {
		panic(errSpent)
	}
	n.spend(1 + bytes/effort.Bytes + bytes*n.perByte)
}

func (n *navigator) Copy() xpath.NodeNavigator {
	n.spend(copySteps)
	c := *n
	return &c
}

func (n *navigator) MoveTo(other xpath.NodeNavigator) bool {
	n.spend(1)
	o, ok := other.(*navigator)
	return ok && n.NodeNavigator.MoveTo(&o.NodeNavigator)
}

// MoveToRoot and the moves below are those of the library, for a step each.
func (n *navigator) MoveToRoot() {
	n.spend(1)
	n.NodeNavigator.MoveToRoot()
}

// MoveToParent moves to the parent, or from an attribute to its element.
func (n *navigator) MoveToParent() bool { return n.spend(1) && n.NodeNavigator.MoveToParent() }

func (n *navigator) MoveToNextAttribute() bool {
	return n.spend(1) && n.NodeNavigator.MoveToNextAttribute()
}

func (n *navigator) MoveToChild() bool { return n.spend(1) && n.NodeNavigator.MoveToChild() }

func (n *navigator) MoveToNext() bool { return n.spend(1) && n.NodeNavigator.MoveToNext() }

func (n *navigator) MoveToPrevious() bool { return n.spend(1) && n.NodeNavigator.MoveToPrevious() }

func (n *navigator) MoveToFirst() (moved bool) {
	for n.MoveToPrevious() {
		moved = true
	}
	return moved
}

// Value returns the text at the position. For an element each node is charged.
func (n *navigator) Value() string {
	node := n.Current()
	if node.Type != html.ElementNode || n.NodeType() == xpath.AttributeNode {
		v := n.NodeNavigator.Value()
		n.spendText(len(v), len(v))
		return v
	}
	var b strings.Builder
	n.text(&b, node)
	return b.String()
}

func (n *navigator) text(b *strings.Builder, of *html.Node) {
	for c := of.FirstChild; c != nil; c = c.NextSibling {
		switch n.spend(1); c.Type {
		case html.TextNode:
			n.spendText(len(c.Data), b.Len()+len(c.Data))
			b.WriteString(c.Data)
		case html.CommentNode:
		default:
			n.text(b, c)
		}
	}
}
