// The theme: the system's unless a person chose one, which this browser remembers. Not a module, so that it runs before the first
// paint and nothing flashes.
(() => {
  const choices = ["system", "light", "dark"];
  const stored = () => {
    try {
      const theme = localStorage.getItem("theme");
      return choices.includes(theme) ? theme : "system";
    } catch {
      return "system"; // storage can be forbidden
    }
  };
  const apply = (theme) => {
    if (theme === "system") delete document.documentElement.dataset.theme;
    else document.documentElement.dataset.theme = theme;
  };
  apply(stored());
  document.addEventListener("DOMContentLoaded", () => {
    const button = document.getElementById("theme");
    let theme = stored();
    const show = () => { button.textContent = `Theme: ${theme}`; };
    show();
    button.addEventListener("click", () => {
      theme = choices[(choices.indexOf(theme) + 1) % choices.length];
      try {
        localStorage.setItem("theme", theme);
      } catch { /* then it holds until the page is left */ }
      apply(theme);
      show();
    });
  });
})();
