export * from "./testing.js";
