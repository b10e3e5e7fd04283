// The scene in quiet greys: under the map its own colours would mix with those of the classes, and
// the mixture would be the colour of some other class.

const CALM = 0.4; // how far greys are drawn towards the middle
const made = new WeakMap(); // image -> canvas

export function greyed(image) {
  let canvas = made.get(image);
  if (canvas) return canvas;
  canvas = document.createElement("canvas");
  canvas.width = image.naturalWidth;
  canvas.height = image.naturalHeight;
  const context = canvas.getContext("2d");
  const paint = (mode, act) => { context.globalCompositeOperation = mode; act(); };
  const fill = () => context.fillRect(0, 0, canvas.width, canvas.height);
  context.drawImage(image, 0, 0);
  context.fillStyle = "#808080";
  paint("saturation", fill); // luminance alone
  context.globalAlpha = CALM;
  paint("source-over", fill);
  context.globalAlpha = 1;
  paint("destination-in", () => context.drawImage(image, 0, 0)); // clear where there is no data
  made.set(image, canvas);
  return canvas;
}
