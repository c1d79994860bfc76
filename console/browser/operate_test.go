package browser

import (
	"testing"

	"github.com/chromedp/chromedp"
)

// TestOperate makes a key and revokes it, and counts what would be erased, with axe-core on
// what the pages say then.
func TestOperate(t *testing.T) {
	needBrowser(t)
	g := startGateway(t, definitions, shop)
	g.traffic()
	b := g.signedIn("ops")
	check := func(where, button, shows string) {
		t.Helper()
		b.do(chromedp.Click(button), chromedp.WaitVisible(shows))
		b.do(chromedp.Evaluate[chromedp.Void](axe))
		for _, size := range sizes {
			b.look(size.width, size.height, "dark")
			b.check(where)
		}
		b.take() // what axe-core does is not the page's
	}
	b.visit("keys")
	b.do(chromedp.SendKeys("#k-name", "<i>made</i>"))
	check("a key that was made", "main .go button", "main .banner code")
	b.do(chromedp.SendKeys("#k-name", "<i>made</i>"))
	check("a name that is taken", "main .go button", "main .banner.bad")
	b.visit("erase")
	b.do(chromedp.SendKeys("#e-member", "customer"), chromedp.SendKeys("#e-value", "c-1042"))
	check("what would be erased", "main form[method=post] button", "#e-confirm")
}
