<?php
// Symfony's RateLimiter: SETTING=a LOG=... php -S HOST:PORT symfony.php
// The lines of the log are those that internal/lab/realserver reads.
require '/usr/share/php/Symfony/Component/RateLimiter/autoload.php';
require '/usr/share/php/Symfony/Component/Cache/autoload.php';

use Symfony\Component\Cache\Adapter\FilesystemAdapter;
use Symfony\Component\RateLimiter\RateLimiterFactory;
use Symfony\Component\RateLimiter\Storage\CacheStorage;

$at = microtime(true);
$settings = [
    'a' => ['id' => 'a', 'policy' => 'token_bucket', 'limit' => 30, 'rate' => ['interval' => '1 second', 'amount' => 12]],
    'b' => ['id' => 'b', 'policy' => 'sliding_window', 'limit' => 150, 'interval' => '10 seconds'],
    'c' => ['id' => 'c', 'policy' => 'fixed_window', 'limit' => 95, 'interval' => '5 seconds'],
];
$storage = new CacheStorage(new FilesystemAdapter('limits', 0, getenv('DIR')));
$limit = (new RateLimiterFactory($settings[getenv('SETTING')], $storage))->create($_SERVER['REMOTE_ADDR'])->consume();
$after = '-';
if ($limit->isAccepted() && file_exists(getenv('DIR') . '/away')) {
    http_response_code(500);
} elseif ($limit->isAccepted()) {
    header('Content-Type: text/html');
    echo "<!DOCTYPE html><title>A page</title><p>The same small page under every query.\n";
} else {
    http_response_code(429);
    if (getenv('SETTING') === 'b') { // as Symfony's documentation has it
        $after = max(1, $limit->getRetryAfter()->getTimestamp() - time());
        header('Retry-After: ' . $after);
    }
}
file_put_contents('php://stdout', sprintf("at=%.6f status=%d after=%s request=%s %s\n",
    $at, http_response_code(), $after, $_SERVER['REQUEST_METHOD'], $_SERVER['REQUEST_URI']));
