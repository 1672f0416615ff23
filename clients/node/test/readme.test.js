"use strict";

/** Runs the programs of the README, with the address of a fake server, in a folder that has the package installed. */

const assert = require("node:assert/strict");
const { spawn } = require("node:child_process");
const { once } = require("node:events");
const fs = require("node:fs");
const os = require("node:os");
const path = require("node:path");
const { after, before, test } = require("node:test");
const { FakeServer, OK, counting, lease } = require("./support.js");

const ROOT = path.join(__dirname, "..");
const README = fs.readFileSync(path.join(ROOT, "README.md"), "utf8");

/** Programs of the README by their names. */
const programs = new Map(
  [...README.matchAll(/^```(?:js|ts)\n\/\/ (\S+)\n([\s\S]*?)^```$/gm)].map(([, name, text]) => [name, text]),
);

const expected = new Map([
  ["first.mjs", /^1n\n\[ 2n, 3n, 4n \]\n20\d\d-\d\d-\d\dT[\d:.]+Z$/],
  ["first.cjs", /^1n\n\[ 2n, 3n, 4n \]\n20\d\d-\d\d-\d\dT[\d:.]+Z$/],
  ["defaults.mjs", /^1 2$/],
  ["orders.test.mjs", /^$/],
]);

let folder;

before(() => {
  folder = fs.mkdtempSync(path.join(os.tmpdir(), "getid-readme-"));
  fs.mkdirSync(path.join(folder, "node_modules"));
  fs.symlinkSync(ROOT, path.join(folder, "node_modules", "getid-client"));
});

after(() => fs.rmSync(folder, { recursive: true }));

/** Runs a command in the folder. Returns its exit status and what it printed. */
async function run(command, ...words) {
  const child = spawn(command, words, { cwd: folder, stdio: ["ignore", "pipe", "inherit"] });
  let printed = "";
  child.stdout.on("data", (chunk) => (printed += chunk));
  const [code] = await once(child, "close");
  return { code, printed: printed.trim() };
}

test("the README has the programs that this test runs", () => {
  assert.deepEqual([...programs.keys()].sort(), [...expected.keys(), "first.mts"].sort());
});

for (const [name, printed] of expected) {
  test(`the README's ${name}`, async () => {
    const sequence = counting();
    const server = await FakeServer.start((words) => {
      if (words[1] === "LEASE") return lease(7, Date.now() - 1000, Date.now() + 60_000);
      return words[1] === "RELEASE" ? OK : sequence(words);
    });
    fs.writeFileSync(path.join(folder, name), programs.get(name).replace("getid://127.0.0.1:7890", server.url));
    const ends = await run(process.execPath, name);
    assert.equal(ends.code, 0);
    assert.match(ends.printed, printed);
    server.stop();
  });
}

const compiler = process.env.GETID_TEST_TSC;

test("the README's first.mts has right types", { skip: !compiler && "GETID_TEST_TSC is no path of tsc" }, async () => {
  fs.writeFileSync(path.join(folder, "first.mts"), programs.get("first.mts"));
  fs.copyFileSync(path.join(__dirname, "types.mts"), path.join(folder, "types.mts"));
  fs.copyFileSync(path.join(__dirname, "types.mts"), path.join(folder, "types.cts"));
  const options = "--noEmit --strict --target es2022 --lib es2022,dom --module nodenext first.mts types.mts types.cts";
  const { code, printed } = await run(process.execPath, compiler, ...options.split(" "));
  assert.equal(printed, "");
  assert.equal(code, 0);
});
