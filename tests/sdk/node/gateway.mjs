// The server under test: tests/sdk/conftest.py describes it, tests/sdk/test_node.py hands it over.

export const gateway = JSON.parse(process.env.HOPTRIO_SDK_GATEWAY);

export const weather = { type: "object", properties: { city: { type: "string" } }, required: ["city"] };
export const expectedArguments = { city: "Köln, Mitte" };
export const call = `sim: events=0 tools=1 args='{"city":"Köln, Mitte"}' pace=1ms`;
export const everything = "sim: text=abcdef events=6 reasoning=2 tools=2 pace=1ms";

// Everything a stream gives, and what it failed with, if it did.
export async function collect(stream) {
  const kept = [];
  try {
    for await (const each of await stream) kept.push(each);
  } catch (error) {
    return { kept, error };
  }
  return { kept, error: null };
}

export async function failure(promise) {
  try {
    await promise;
  } catch (error) {
    return error;
  }
  throw new Error("it did not fail");
}
