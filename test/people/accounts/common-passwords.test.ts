import { assert, describe, it } from "@effect/vitest"
import { isCommonPassword } from "../../../src/people/accounts/common-passwords.ts"

describe("a common password", () => {
  it.each([
    "passwordpassword",
    "Password1234",
    "P@ssw0rd1234",
    "password!!!!",
    "administrator",
    "Administrator2026!",
    "letmeinletmein",
    "iloveyou12345",
    "qwertyuiop123",
    "1q2w3e4r5t6y",
    "123456789012",
    "aaaaaaaaaaaa",
    "abababababab",
    "abcdefghijkl",
    "zyxwvutsrqpo",
    "correct horse battery staple",
    "correcthorsebatterystaple",
    "welcome-welcome",
    "sunshine summer",
    "trustno1trustno1",
    "ApplicationManager1"
  ])("is %s", (password) => {
    assert.isTrue(isCommonPassword(password))
  })

  it.each([
    "seven grey herons at dawn",
    "nine brown otters at dusk",
    "Xk4!vR9#mQ2z",
    "TOMRDFHxijKyNin0MsDAD3Co",
    "qlaxmoentvyu",
    "Übergrößenträger",
    "пароль из леса"
  ])("is not %s", (password) => {
    assert.isFalse(isCommonPassword(password))
  })

  it("is one that is made of what is known of its owner", () => {
    const about = ["ada.lovelace@example.com", "Ada Lovelace"]
    for (const password of ["lovelace1815!", "ada.lovelace@example.com", "AdaLovelace1", "example.com1234"]) {
      assert.isTrue(isCommonPassword(password, about), password)
    }
    assert.isFalse(isCommonPassword("lovelace among seven herons", about))
    const people = ["अनुराधा शर्मा", "Nguyễn Thị".normalize("NFD"), "ｇｒａｃｅ hopper"]
    for (const password of ["अनुराधा1990!!!", "2026-Nguyễn-2026", "Grace1906-1906"]) {
      assert.isTrue(isCommonPassword(password, people), password)
    }
    assert.isFalse(isCommonPassword("अनुराधा कमल नदी पहाड़", people))
  })
})
