import { parseSync, Visitor, type ESTree } from "vite";

const longest = 80;

/** Words that hide the subject, and verbs that the code no longer uses. A name has a subject and a plain verb: returns, reports, releases, requeues. */
const unclear =
  /\b(?:nobody|somebody|whoever|anybody|told|tells?|says?|said|answer(?:s|ed)?|dear|hears?|heard|put ?back|hand(?:s|ed)? ?back|give(?:s|n)? ?back|glances?|beats?|deeds?|crew|slumber)\b/i;

/** What is wrong with a test name. */
export function nameFaults(name: string): string[] {
  const word = unclear.exec(name)?.[0];
  return [
    ...(name.length > longest ? [`${name.length} characters`] : []),
    ...(word === undefined ? [] : [`"${word}"`]),
  ];
}

/** The names given to `test`, `it` and `describe` in a file, also through `.each` and `.skipIf`. */
export function testNames(file: string, text: string): string[] {
  const names: string[] = [];
  new Visitor({
    CallExpression: ({ callee, arguments: [first] }) => {
      if (first !== undefined && /^(?:test|it|describe)$/.test(calledName(callee))) {
        if (first.type === "Literal" && typeof first.value === "string") names.push(first.value);
        if (first.type === "TemplateLiteral") names.push(text.slice(first.start + 1, first.end - 1));
      }
    },
  }).visit(parseSync(file, text).program);
  return names;
}

function calledName(node: ESTree.Node): string {
  if (node.type === "CallExpression") return calledName(node.callee);
  if (node.type === "MemberExpression") return calledName(node.object);
  return node.type === "Identifier" ? node.name : "";
}
