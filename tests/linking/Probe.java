// SPDX-License-Identifier: MIT
// Loads the library that its first argument names, and asks it for what the second says.
final class Probe {
    private static native int probe(String wanted);

    public static void main(String[] arguments) {
        System.load(arguments[0]);
        System.exit(probe(arguments[1]));
    }
}
