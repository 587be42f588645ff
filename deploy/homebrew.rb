# A Homebrew formula; release.sh fills in the version and the checksums.
class Treadlight < Formula
  desc "Polite web crawler that learns how fast each host may be requested"
  homepage "https://github.com/treadlight/crawl"
  version "@VERSION@"
  license "Apache-2.0"

  on_macos do
    on_arm do
      url "@URL@/crawl_@TAG@_darwin_arm64.tar.gz"
      sha256 "@SUM darwin_arm64@"
    end
    on_intel do
      url "@URL@/crawl_@TAG@_darwin_amd64.tar.gz"
      sha256 "@SUM darwin_amd64@"
    end
  end
  on_linux do
    on_arm do
      url "@URL@/crawl_@TAG@_linux_arm64.tar.gz"
      sha256 "@SUM linux_arm64@"
    end
    on_intel do
      url "@URL@/crawl_@TAG@_linux_amd64.tar.gz"
      sha256 "@SUM linux_amd64@"
    end
  end

  conflicts_with "crawl", because: "both install a command named crawl"

  def install
    bin.install "crawl"
    man1.install Dir["man/*.1"]
    bash_completion.install "completions/crawl.bash" => "crawl"
    zsh_completion.install "completions/crawl.zsh" => "_crawl"
    fish_completion.install "completions/crawl.fish"
  end

  test do
    assert_match version.to_s, shell_output("#{bin}/crawl version")
  end
end
