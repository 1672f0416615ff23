// The page in a real Chromium, with a getid that this program starts, stops and deprives of its folder. Prints `ok
// page`.
import assert from 'node:assert';
import { execFile, spawn } from 'node:child_process';
import fs from 'node:fs';
import { createRequire } from 'node:module';
import net from 'node:net';
import path from 'node:path';
import { promisify } from 'node:util';

const require = createRequire(`${process.env.GETID_TEST_NODE_DIR ?? process.cwd()}/`);
const { chromium } = require('playwright-core');
const axe = fs.readFileSync(require.resolve('axe-core/axe.min.js'), 'utf8');
const { GETID_BINARY: binary, GETID_SHOTS: shots } = process.env;
const [port, http] = [process.env.GETID_PORT, process.env.GETID_HTTP_PORT].map(Number);
const url = `http://127.0.0.1:${http}/`;
const PATIENCE = 20_000;

const dir = path.join(process.env.GETID_DIR, '<img src=x onerror=hacked()>');
fs.mkdirSync(dir);
fs.mkdirSync(shots, { recursive: true });

/* ---- the server ---- */

let server;
// A signal to this program also ends the server.
for (const signal of ['SIGTERM', 'SIGINT']) {
  process.once(signal, () => {
    server?.kill('SIGKILL');
    process.exit(1);
  });
}

async function start() {
  const words = ['serve', '--port', port, '--http-port', http, '--http-bind', '127.0.0.1', '--dir', dir,
    '--sequence-create', 'on-first-use', '--id-max-borrow-ms', '500', '--id-watermark-lead-ms', '400',
    '--generator', 'tweets twitter', '--generator', 'trace uuid7', '--generator', 'short leaf format base62 prefix S-',
    '--generator', 'feed redis-lua one-server 0', '--generator', 'invoice serial INV-{yyyy}-{n:4} zone UTC', '--worker-pool', 'batch size 8 lease 30s'];
  const env = Object.fromEntries(Object.entries(process.env).filter(([name]) => !name.startsWith('GETID_')));
  server = spawn(binary, words.map(String), { stdio: 'ignore', env: { ...env, GETID_ID_MACHINE_CLAIM: 'no' } });
  await until('the server answers', () => fetch(`${url}livez`).then(answer => answer.ok, () => false));
}

async function until(what, is) {
  const end = Date.now() + PATIENCE;
  while (!await is()) {
    assert(Date.now() < end, `not in time: ${what}`);
    await new Promise(resolve => setTimeout(resolve, 50));
  }
}

/* Returns the first line of the reply to an inline command, or the text of a bulk string. */
function redis(line) {
  return new Promise((resolve, reject) => {
    const socket = net.connect(port, '127.0.0.1', () => socket.write(`${line}\r\n`));
    let text = '';
    socket.on('error', reject).on('data', data => {
      text += data;
      const [head, next] = text.split('\r\n');
      if (!text.includes('\n') || (head[0] === '$' && next === undefined)) return;
      socket.destroy();
      resolve(head[0] === '$' ? next : head.slice(1));
    });
  });
}

/* Logs in, and returns the reply to an inline command. */
async function redisAs(password, line) {
  return new Promise((resolve, reject) => {
    const socket = net.connect(port, '127.0.0.1', () => socket.write(`AUTH ${password}\r\n${line}\r\n`));
    let text = '';
    socket.on('error', reject).on('data', data => {
      text += data;
      const [, reply, end] = text.split('\r\n');
      if (end === undefined) return;
      socket.destroy();
      resolve(reply.slice(1));
    });
  });
}

/* Draws IDs as fast as possible, and returns a function that stops it. */
function load() {
  const request = 'MGETID 100\r\n'.repeat(50);
  const socket = net.connect(port, '127.0.0.1', () => socket.write(request));
  socket.on('data', () => socket.writableNeedDrain || socket.write(request)).on('error', () => {});
  return () => socket.destroy();
}

/* ---- the browser ---- */

const browser = await chromium.launch({ executablePath: process.env.GETID_TEST_CHROMIUM ?? '/usr/bin/chromium', args: ['--no-sandbox'] });
const faults = [];
const EXPECTED = /Failed to load resource/;

async function open(options = {}) {
  const context = await browser.newContext({ viewport: { width: 1280, height: 900 }, colorScheme: 'light', timezoneId: 'Asia/Shanghai', ...options });
  const page = await context.newPage();
  page.setDefaultTimeout(PATIENCE);
  await page.addInitScript(() => {
    window.hacked = () => { window.wasHacked = true; };
    addEventListener('securitypolicyviolation', event => console.error(`the policy forbids ${event.violatedDirective}`));
  });
  // Chromium itself reports requests that fail while the server is gone or requires a login.
  page.on('console', line => ['error', 'warning'].includes(line.type()) && !EXPECTED.test(line.text()) && faults.push(line.text()));
  page.on('pageerror', error => faults.push(error.stack));
  page.on('dialog', dialog => faults.push(`a dialog: ${dialog.message()}`));
  page.on('request', request => request.url().startsWith(url) || request.url().startsWith('data:') || faults.push(request.url()));
  await page.goto(url);
  return page;
}

const state = (page, word) => page.locator('#state', { hasText: new RegExp(`^${word}$`) }).waitFor();
const live = page => page.locator('#link[data-state=live]').waitFor();

/* Asserts that axe finds nothing and that the page fits, and takes a screenshot, in both schemes at three widths. */
async function look(page, name) {
  for (const colorScheme of ['light', 'dark']) {
    for (const width of [1920, 1280, 390]) {
      await page.emulateMedia({ colorScheme });
      await page.setViewportSize({ width, height: 900 });
      const wide = await page.evaluate(() => document.documentElement.scrollWidth);
      assert(wide <= width, `${name}: ${wide} pixels of ${width}`);
      await page.evaluate(() => scrollTo({ top: 0, behavior: 'instant' }));
      await page.screenshot({ path: path.join(shots, `${name}-${width}-${colorScheme}.png`), fullPage: true });
      // Colours depend on the scheme, and positions on the width, so axe need not check every combination.
      if (width === 1280 || (width === 390 && colorScheme === 'dark')) await check(page, `${name}, ${width}, ${colorScheme}`);
    }
  }
  await page.emulateMedia({ colorScheme: 'light' });
  await page.setViewportSize({ width: 1280, height: 900 });
}

async function check(page, name) {
  await page.evaluate(axe);
  const violations = await page.evaluate(async () => (await window.axe.run()).violations.map(one =>
    `${one.impact}: ${one.id}: ${one.nodes.map(node => `${node.html} ${node.failureSummary}`).join('; ')}`));
  assert.deepEqual(violations, [], name);
}

/* ---- the stories ---- */

async function idle() {
  const page = await open();
  await live(page);
  await state(page, 'Giving IDs');
  assert.equal(await page.title(), 'getid server 0');
  assert.equal(await page.locator('#cards .card').count(), 8);
  // The number of columns fills each row, at each width.
  for (const [width, columns] of [[1920, 8], [1280, 4], [390, 2]]) {
    await page.setViewportSize({ width, height: 900 });
    const lefts = await page.locator('#cards .card').evaluateAll(all => new Set(all.map(one => one.getBoundingClientRect().left)).size);
    assert.equal(lefts, columns);
  }
  assert.equal(await page.locator('#generators tbody tr').count(), 6);
  assert(!(await page.locator('#generators').textContent()).includes('gives none'));
  await page.locator('#card-claim .note', { hasText: '<img src=x onerror=hacked()>' }).waitFor();
  await page.locator('#get-part').waitFor();
  const words = await page.locator('main').innerText();
  assert(!/unnamed|watermark|without the claim store/i.test(words), words);
  await look(page, 'idle');
  // Screen readers get the state once, and not each second.
  const announcements = await page.evaluate(() => new Promise(resolve => {
    let changes = 0;
    new MutationObserver(() => { changes += 1; }).observe(document.querySelector('[role=status]'), { childList: true, characterData: true, subtree: true });
    setTimeout(() => resolve(changes), 2500);
  }));
  assert.equal(announcements, 0);
  await page.emulateMedia({ reducedMotion: 'reduce' });
  assert.equal(await page.locator('.meter i').first().evaluate(node => getComputedStyle(node).transitionDuration), '0s');
  await page.context().close();
}

async function full() {
  const page = await open();
  await live(page);
  const ends = [load(), load(), load()];
  for (let n = 0; n < 200; n += 1) await redis(`INCR ${['orders', 'invoices', 'tickets'][n % 3]}`);
  await page.waitForFunction(() => Number(document.getElementById('per-s').textContent.replaceAll(',', '')) > 10_000);
  await page.locator('#sequences tbody tr', { hasText: 'orders' }).waitFor();
  await page.screenshot({ path: path.join(shots, 'load-1280-light.png') });
  await look(page, 'load');
  ends.forEach(end => end());
  await page.context().close();
  // A page that is opened now shows the history.
  const late = await open();
  await live(late);
  const peak = Number((await late.locator('#peak').textContent()).replaceAll(',', ''));
  assert(peak > 10_000, `the peak is ${peak}`);
  assert((await late.locator('#line-ids').getAttribute('d')).length > 20);
  await late.context().close();
}

/* Uses only the keyboard. */
async function decoder() {
  const id = await redis('GETID');
  const page = await open();
  await live(page);
  await page.keyboard.press('Tab');
  assert.equal(await page.evaluate(() => document.activeElement.className), 'skip');
  await page.keyboard.press('Enter');
  await page.locator('#decode-part').waitFor();
  await until('the field has the focus', async () => {
    await page.keyboard.press('Tab');
    return page.evaluate(() => document.activeElement.id === 'id');
  });
  const ring = await page.evaluate(() => getComputedStyle(document.activeElement).outlineStyle);
  assert.notEqual(ring, 'none');
  await page.keyboard.type(id);
  await page.keyboard.press('Enter');
  const first = page.locator('.reading').first();
  await first.waitFor();
  const bits = await first.locator('.bits i').allTextContents();
  assert.equal(BigInt(`0b${bits.join('')}`), BigInt(id));
  assert.equal(bits.length, 63);
  assert.deepEqual(await first.locator('.bits span').evaluateAll(all => all.map(one => one.children.length)), [42, 2, 9, 10]);
  const [utc, here] = await first.locator('dd').allTextContents();
  const hours = text => Number(/, (\d\d):/.exec(text)[1]);
  assert.equal((hours(utc) + 8) % 24, hours(here), `${utc} and ${here}`);
  assert.match(await first.locator('dt').nth(1).textContent(), /Asia\/Shanghai/);
  await look(page, 'decoded');
  // Decodes an ID of the selected generator.
  const trace = await redis('GETID trace');
  await page.locator('#id').fill(trace);
  await page.locator('#generator').selectOption('trace');
  // The version and the variant of a UUID are no fields.
  await page.waitForFunction(() => document.querySelectorAll('.reading').length === 1 && document.querySelectorAll('.reading .bits i').length === 122);
  const time = (await page.locator('.reading .bits span').first().locator('i').allTextContents()).join('');
  assert.equal(BigInt(`0b${time}`), BigInt(`0x${trace.slice(0, 8)}${trace.slice(9, 13)}`));
  await page.locator('#id').fill('<img src=x onerror=hacked()>');
  await page.keyboard.press('Enter');
  await page.locator('#decode-wrong', { hasText: '<img src=x' }).waitFor();
  await page.context().close();
}

/* A server with only hostile texts: the page shows them as text. */
async function hostile() {
  const bad = '</script><img src=x onerror=hacked()><svg onload=hacked()>\u202e';
  const put = value => typeof value === 'string' && !/^\d|^(giving|up)$/.test(value) ? bad
    : Array.isArray(value) ? value.map(put)
    : value && typeof value === 'object' ? Object.fromEntries(Object.entries(value).map(([name, own]) => [name, put(own)])) : value;
  const status = put(await (await fetch(`${url}v1/status`)).json());
  status.notices = [{ text: bad }];
  status.giving = { state: 'refusing', reason: bad, remedy: bad };
  status.claim.cluster = {
    role: 'standby', store: bad, product: bad, instance_name: bad, holder: { name: bad, host: bad, address: bad, is_this: false, since: null, until: null },
    not_eligible: bad, timeout_ms: 2000, ride_through_ms: 0, last_answer: null, beats: 0, last_beat_us: 0, errors: 1, error: bad, takeovers: 0, losses: 0,
    last_takeover: { at: null, cause: bad, took_ms: 1 },
  };
  const details = put(await (await fetch(`${url}v1/status/details`)).json());
  Object.assign(details.reader, { may: ['getid', 'decodeid', 'generators', 'incr', 'sequence|raise', 'config|get'] });
  details.errors = [{ code: bad, count: 1 }];
  details.fleet = { read: '2026-01-01T00:00:00.000Z', error: bad, has_more: true, claims: [{ server_id: 0, state: 'held', name: bad, host: bad, address: bad, since: null, written_ms_ago: -5000, timeout_ms: 2000 }] };
  const generator = put(await (await fetch(`${url}v1/status/generators/tweets`)).json());
  const page = await open();
  await page.route('**/v1/status/details', route => route.fulfill({ contentType: 'application/json', body: JSON.stringify(details) }));
  await page.route('**/v1/status/generators/*', route => route.fulfill({ contentType: 'application/json', body: JSON.stringify(generator) }));
  await page.route('**/v1/status/stream', route => route.fulfill({ contentType: 'text/event-stream', body: `event: status\ndata: ${JSON.stringify(status)}\n\n` }));
  await page.reload();
  await page.locator('#notices li', { hasText: '<img src=x' }).waitFor();
  await page.locator('#claim-facts').waitFor();
  await page.locator('#claims tbody tr', { hasText: '<img src=x' }).waitFor();
  await page.locator('#claims-more', { hasText: "'getid claim show' lists all" }).waitFor();
  await page.locator('#log li', { hasText: '<img src=x' }).first().waitFor();
  await page.locator('#pools tbody tr', { hasText: '<img src=x' }).first().waitFor();
  await page.locator('#generators button.name').last().click();
  await page.locator('.inside', { hasText: '<img src=x' }).waitFor();
  assert.equal(await page.locator('main img, main script, svg[onload]').count(), 0);
  assert.equal(await page.evaluate(() => window.wasHacked), undefined);
  assert(!(await page.locator('main').innerText()).includes('\u202e'), 'what turns the direction is shown as its number');
  await page.context().close();
}

/* Gets, copies, counts and raises, only with the controls of the page. */
async function work() {
  // A newly declared pool with short leases leases nothing at first, because its ids may still be in use.
  assert.equal(await redis('WORKERID INIT batch NEW'), 'OK');
  await redis('WORKERID LEASE batch NAME importer-7');
  const page = await open({ permissions: ['clipboard-read', 'clipboard-write'] });
  await live(page);
  const row = name => page.locator('#generators tbody tr', { hasText: name });
  await row('tweets').getByRole('button', { name: 'Get an ID of tweets' }).click();
  const got = page.locator('#got-list code');
  await got.first().waitFor();
  const id = await got.first().textContent();
  // The page decodes the ID next to it.
  await page.locator('#decoded h3', { hasText: 'tweets (twitter)' }).waitFor();
  assert.equal(await page.locator('#id').inputValue(), id);
  await page.getByRole('button', { name: `Copy ${id}` }).click();
  assert.equal(await page.evaluate(() => navigator.clipboard.readText()), id);
  await page.locator('#count').fill('3');
  await page.locator('#get-button').click();
  await until('three IDs', async () => await got.count() === 3);
  const ids = await got.allTextContents();
  assert(ids.every((one, at) => BigInt(one) > BigInt(at ? ids[at - 1] : id)), `${id} ${ids}`);
  // The displayed call runs and gives three IDs.
  const call = await page.locator('#call').textContent();
  assert.equal(call, `curl -s -X POST '${url}v1/ids/tweets?count=3'`);
  const { stdout } = await promisify(execFile)('sh', ['-c', call]);
  assert.equal(JSON.parse(stdout).ids.length, 3);
  for (const [language, part] of [['redis-cli', `redis-cli -h 127.0.0.1 -p ${port} MGETID 3 tweets`], ['Python', 'ids.execute_command("MGETID", "3", "tweets")'],
    ['Java', 'ids.sendCommand(() -> "MGETID".getBytes(), "3", "tweets")'], ['Go', 'ids.Do(ctx, "MGETID", "3", "tweets")'], ['Node', 'ids.sendCommand(["MGETID", "3", "tweets"])']]) {
    await page.locator('#languages').getByText(language, { exact: true }).click();
    assert((await page.locator('#call').textContent()).includes(part), part);
  }
  // Fields that come with the request.
  await page.locator('#from').selectOption('g:feed');
  await page.locator('#field-shard').fill('53');
  await page.locator('#count').fill('1');
  await page.locator('#get-button').click();
  await page.locator('#decoded tbody tr', { hasText: 'shard' }).locator('td', { hasText: /^53$/ }).waitFor();
  await page.locator('#field-shard').fill('9999999');
  await page.locator('#get-button').click();
  await page.locator('#get-wrong', { hasText: 'shard' }).waitFor();
  // A serial number appears in its row and in the list.
  await row('invoice').getByRole('button', { name: 'Get' }).click();
  await until('a serial number', async () => /^INV-\d{4}-0001$/.test(await got.first().textContent()));
  await row('invoice').locator('td', { hasText: /^1$/ }).first().waitFor();
  await look(page, 'work');
  // The details of a name.
  await row('tweets').locator('button.name').click();
  await page.locator('.inside .stripes span', { hasText: 'counter 12' }).waitFor();
  await page.locator('.inside', { hasText: '4,096,000 a second' }).waitFor();
  assert.equal(await row('tweets').first().locator('button.name').getAttribute('aria-expanded'), 'true');
  await row('invoice').locator('button.name').click();
  await page.locator('.inside', { hasText: 'INV-{yyyy}-{n:4}' }).waitFor();
  await look(page, 'layout');
  await row('tweets').first().locator('button.name').click();
  await until('it is closed', async () => await page.locator('.inside .stripes').count() === 0);
  await page.locator('#pools button.name').click();
  await page.locator('#pools tr.more', { hasText: 'importer-7' }).waitFor();
  await page.getByText('24 hours').click();
  await page.locator('#began', { hasText: ' h ago' }).waitFor();
  await page.context().close();
}

async function counting() {
  const page = await open();
  await live(page);
  await page.locator('#create').click();
  await page.locator('#dialog-name').fill('bills');
  await page.locator('#dialog-start').fill('1000');
  await check(page, 'the dialog');
  await page.screenshot({ path: path.join(shots, 'dialog-1280-light.png') });
  await page.keyboard.press('Enter');
  const row = page.locator('#sequences tbody tr', { hasText: 'bills' });
  await row.waitFor();
  await row.getByRole('button', { name: 'Next value of bills' }).click();
  await page.locator('#got-list code', { hasText: /^1000$/ }).waitFor();
  await row.getByRole('button', { name: 'Raise bills' }).click();
  await page.locator('#dialog-last').fill('5000');
  await page.locator('#dialog-go').click();
  await page.locator('#dialog').waitFor({ state: 'hidden' });
  await row.getByRole('button', { name: 'Next value of bills' }).click();
  await page.locator('#got-list code', { hasText: /^5001$/ }).waitFor();
  // The dialog shows the server's refusal.
  await row.getByRole('button', { name: 'Raise bills' }).click();
  await page.locator('#dialog-last').fill('7');
  await page.locator('#dialog-go').click();
  await page.locator('#dialog-wrong', { hasText: 'bills' }).waitFor();
  await page.keyboard.press('Escape');
  await page.locator('#dialog').waitFor({ state: 'hidden' });
  await page.context().close();
}

/* The page offers only what its user may do. */
async function rights() {
  assert.equal(await redis('ACL SETUSER viewer on >look ~tweets +info +getid +decodeid'), 'OK');
  assert.equal(await redis('ACL SETUSER watcher on >look +info'), 'OK');
  assert.equal(await redis('ACL SETUSER clerk on >look ~shelf:1 +info +incr +sequence|list'), 'OK');
  for (const name of ['shelf:1', 'shelf:2']) assert.equal(await redis(`SEQUENCE CREATE ${name}`), 'OK');
  const page = await open();
  await live(page);
  const enter = async user => {
    await page.locator('#user').fill(user);
    await page.locator('#password').fill('look');
    await page.keyboard.press('Enter');
    await live(page);
    await page.locator('#who', { hasText: user }).waitFor();
  };
  assert.equal(await redis('CONFIG SET requirepass secret'), 'OK');
  await page.reload();
  await page.locator('#login').waitFor();
  await enter('viewer');
  await page.locator('#get-part').waitFor();
  assert.deepEqual(await page.locator('#from option').evaluateAll(all => all.map(one => one.value)), ['g:-', 'g:tweets']);
  assert.equal(await page.locator('#generators td.acts button').count(), 2);
  assert.equal(await page.locator('#count').isVisible(), false);
  assert.equal(await page.locator('#sequences button').count(), 0);
  assert.equal(await page.locator('#create').isVisible(), false);
  assert.match(await page.locator('#call').textContent(), /--user viewer:PASSWORD/);
  assert.equal(await page.locator('#generators button.name').count(), 2);
  assert.equal((await page.locator('body').innerText()).includes('viewers'), false);
  await page.locator('#leave').click();
  await enter('watcher');
  await page.locator('#commands tbody tr').first().waitFor();
  for (const part of ['#get-part', '#decode-part']) assert.equal(await page.locator(part).isVisible(), false);
  assert.equal(await page.locator('#generators td.acts button').count(), 0);
  assert.equal(await page.locator('#generators button.name').count(), 0);
  await page.locator('#log-none', { hasText: 'users who may run CONFIG GET' }).waitFor();
  await check(page, 'the page of who may only look');
  // The user may draw from some sequences of the store's list.
  await page.locator('#leave').click();
  await enter('clerk');
  const shelf = n => page.locator('#sequences tbody tr', { hasText: `shelf:${n}` });
  await shelf(1).getByRole('button', { name: 'Next value of shelf:1' }).waitFor();
  assert.equal(await shelf(2).locator('button').count(), 0);
  assert.deepEqual(await page.locator('#from option').evaluateAll(all => all.map(one => one.value)), ['s:shelf:1']);
  // The page reads the store's next value again.
  await shelf(2).locator('td', { hasText: /^next is 1$/ }).waitFor();
  await redisAs('secret', 'SEQUENCE RAISE shelf:2 41');
  await shelf(2).locator('td', { hasText: /^next is 42$/ }).waitFor();
  await page.context().close();
  assert.equal(await redisAs('secret', 'CONFIG SET requirepass ""'), 'OK');
}

/* After a logout, no data of the last user, and no late answer, is visible to the next one. */
async function leaving() {
  assert.equal(await redis('ACL SETUSER first on >look ~* +@all'), 'OK');
  assert.equal(await redis('CONFIG SET requirepass secret'), 'OK');
  const page = await open();
  await page.locator('#login').waitFor();
  await page.locator('#user').fill('first');
  await page.locator('#password').fill('look');
  await page.keyboard.press('Enter');
  await live(page);
  await page.locator('#get-button').click();
  const id = await page.locator('#got-list code').first().textContent();
  await page.locator('.reading').first().waitFor();
  const held = [];
  const hold = route => { held.push(route); };
  await page.route('**/v1/ids/**', hold);
  await page.route('**/v1/sequences/twice', hold);
  await page.locator('#get-button').click();
  await page.locator('#id').fill(id);
  await page.keyboard.press('Enter');
  await until('both are on their way', () => held.length === 2);
  await page.locator('#create').click();
  await page.locator('#dialog-name').fill('twice');
  await page.keyboard.press('Enter');
  await page.keyboard.press('Enter');
  await until('the dialog is sent', () => held.length === 3);
  assert(await page.locator('#dialog-go').isDisabled());
  await redisAs('secret', 'ACL SETUSER first -info');
  await page.locator('#login').waitFor();
  assert.equal(await page.locator('#dialog').isVisible(), false);
  assert.equal(held.length, 3, 'two Enters send once');
  await page.unroute('**/v1/ids/**');
  await Promise.all(held.map(async route => route.fulfill({ response: await route.fetch() })));
  await page.locator('#user').fill('default');
  await page.locator('#password').fill('secret');
  await page.keyboard.press('Enter');
  await live(page);
  await page.locator('#get-part').waitFor();
  for (const list of ['#got-list li', '.reading', '#dialog-fields input']) assert.equal(await page.locator(list).count(), 0, list);
  for (const part of ['#got', '#decoded', '#dialog']) assert.equal(await page.locator(part).isVisible(), false, part);
  for (const text of ['#get-wrong', '#decode-wrong', '#toast']) assert.equal(await page.locator(text).textContent(), '', text);
  assert.equal(await page.locator('#id').inputValue(), '');
  assert(!(await page.locator('body').innerHTML()).includes(id));
  await page.context().close();
  assert.equal(await redisAs('secret', 'CONFIG SET requirepass ""'), 'OK');
}

async function refusing() {
  const page = await open();
  await live(page);
  await state(page, 'Giving IDs');
  fs.renameSync(dir, `${dir}.away`);
  await state(page, 'Giving no IDs');
  await page.locator('#reason', { hasText: 'claim lost' }).waitFor();
  assert.equal(await page.locator('#generators .bad-text', { hasText: 'gives none, for the same reason' }).count(), 4);
  await page.locator('#remedy', { hasText: 'Put the state folder back' }).waitFor();
  assert.match(await page.locator('[role=status]').textContent(), /^Giving no IDs\./);
  assert.match(await page.title(), /^Giving no IDs: /);
  await look(page, 'refusing');
  fs.renameSync(`${dir}.away`, dir);
  await state(page, 'Giving IDs');
  await page.context().close();
}

async function manyViewers() {
  const enough = new AbortController();
  // The place of a closed page becomes free once the server has noticed.
  const view = async () => {
    for (let tries = 0; tries < 300; tries++) {
      const stream = await fetch(`${url}v1/status/stream`, { signal: enough.signal });
      if (stream.ok) return stream;
      await stream.body.cancel();
      await new Promise(done => setTimeout(done, 100));
    }
    return null;
  };
  // The streams are kept, because an unreferenced stream is closed.
  const streams = await Promise.all(Array.from({ length: 32 }, view));
  assert(streams.every(stream => stream), '32 viewers may look on');
  const page = await open();
  await page.locator('#link-text', { hasText: 'too many viewers' }).waitFor();
  await state(page, 'Giving IDs');
  enough.abort();
  await live(page);
  await page.context().close();
}

async function login() {
  assert.equal(await redis('CONFIG SET requirepass geheim-ü'), 'OK');
  const page = await open();
  await page.locator('#login').waitFor();
  assert.equal(await page.evaluate(() => document.activeElement.id), 'password');
  assert.equal(await page.locator('#now').isVisible(), false);
  await look(page, 'login');
  await page.keyboard.type('wrong');
  await page.keyboard.press('Enter');
  await page.locator('#login-wrong', { hasText: 'invalid username-password pair' }).waitFor();
  await page.keyboard.type('geheim-ü');
  await page.keyboard.press('Enter');
  await live(page);
  await state(page, 'Giving IDs');
  assert.equal(await page.locator('#login').isVisible(), false);
  const kept = await page.evaluate(() => [localStorage.length, sessionStorage.length, document.cookie, document.getElementById('password').value]);
  assert.deepEqual(kept, [0, 0, '', '']);
  await page.locator('#leave').click();
  await page.locator('#login').waitFor();
  await page.reload();
  await page.locator('#login').waitFor();
  await page.context().close();
}

async function gone() {
  const page = await open();
  await live(page);
  server.kill('SIGKILL');
  await state(page, 'No answer');
  await page.locator('#reason', { hasText: /since \d\d:\d\d:\d\d\./ }).waitFor();
  await page.locator('#link-text', { hasText: /^No answer for \d/ }).waitFor();
  await look(page, 'gone');
  await start();
  await live(page);
  await state(page, 'Giving IDs');
  // A silent server counts as gone, although no connection was closed.
  server.kill('SIGSTOP');
  await state(page, 'No answer');
  server.kill('SIGCONT');
  await state(page, 'Giving IDs');
  await page.context().close();
}

try {
  await start();
  for (const story of [idle, full, decoder, work, counting, hostile, rights, leaving, refusing, manyViewers, gone, login]) {
    await story();
    assert.deepEqual(faults, [], story.name);
  }
  console.log('ok page');
} finally {
  await browser.close();
  server.kill('SIGKILL');
}
