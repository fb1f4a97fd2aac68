-- What both renderers do with the chapters' marks: minus signs, units that stay with their numbers,
-- the colours of verdicts, the line with data and cells below each figure and table, and parts that
-- the page folds.

-- A hyphen before a number is a minus sign. typst would turn the apostrophe of "RFC 9438's" into a
-- prime, and break a line within "Mbit/s".
function Str(str)
  local text, count = str.text:gsub("^([%[%(]*)%-(%d)", "%1\u{2212}%2")
  if FORMAT:match("typst") then
    local before, after = text:match("^(.*%d)\u{2019}(%a.*)$")
    if before then
      return pandoc.Inlines({
        pandoc.Str(before), pandoc.RawInline("typst", "#sym.quote.r.single;"), pandoc.Str(after),
      })
    end
    if text:match("^%(?[kMG]?bit/s[%).,;:]*$") then return pandoc.RawInline("typst", "#box[" .. text .. "]") end
  end
  if count > 0 then return pandoc.Str(text) end
end

local units = { ["%"] = true, ms = true, s = true, ["kbit/s"] = true, ["Mbit/s"] = true, ["Gbit/s"] = true }

-- Keep a number and its unit on one line.
function Para(para)
  local inlines = para.content
  for i = 2, #inlines - 1 do
    local space = inlines[i].t == "Space" or inlines[i].t == "SoftBreak"
    local after = inlines[i + 1].text
    if space and inlines[i - 1].t == "Str" and after then
      local unit = after:gsub("^#box%[", ""):match("^[%a%%/]+")
      if units[unit or ""] and inlines[i - 1].text:match("%d$") then inlines[i] = pandoc.Str("\u{00A0}") end
    end
  end
  return para
end

-- typst has no classes: style.typ sets a verdict's colour.
function Span(span)
  local kind = nil
  for _, class in ipairs(span.classes) do kind = class:match("^verdict%-(.+)$") or kind end
  if not (kind and FORMAT:match("typst")) then return nil end
  local inlines = pandoc.Inlines({ pandoc.RawInline("typst", '#verdict("' .. kind .. '")[') })
  inlines:extend(span.content)
  inlines:insert(pandoc.RawInline("typst", "]"))
  if span.identifier ~= "" then
    inlines:insert(pandoc.RawInline("typst", "<" .. span.identifier .. ">"))
  end
  return inlines
end

-- Links that only the page has.
local function without_web(inlines)
  return inlines:walk({
    Span = function(span) if span.classes:includes("web") then return {} end end,
    Link = function(link) return link.content end,
  })
end

local function is_trace(block)
  local span = block.t == "Para" and #block.content == 1 and block.content[1]
  return span and span.t == "Span" and span.classes:includes("trace")
end

-- Add words to the caption of the figure that a block is or ends with; return whether there is one.
-- Quarto's figures are Divs of two parts, picture and caption, in further Divs.
local function add_to_caption(block, words)
  if block.t == "Figure" then
    block.caption.long:insert(pandoc.Para(words))
    return true
  end
  if block.t ~= "Div" or #block.content == 0 then return false end
  if block.attributes.__quarto_custom_type ~= "FloatRefTarget" then
    return add_to_caption(block.content[#block.content], words)
  end
  local shown, caption = block.content[1].content[1], block.content[2].content[1]
  if not (shown.t == "Plain" and shown.content[1].t == "Image") then return false end
  caption.content:insert(pandoc.LineBreak())
  caption.content:extend(words)
  return true
end

local function ends_with_colon(block)
  local last = block.t == "Para" and block.content[#block.content]
  return last and last.t == "Str" and last.text:match(":$")
end

-- Print the line in smaller print. In the PDF, links become text. A figure may move to another page,
-- so the line becomes part of its caption. The words before a list stay on its page.
function Blocks(blocks)
  local placed = pandoc.Blocks({})
  for i, block in ipairs(blocks) do
    local follower = blocks[i + 1]
    if FORMAT:match("typst") and follower and follower.t == "BulletList" and ends_with_colon(block) then
      placed:insert(pandoc.RawBlock("typst", "#block(sticky: true)["))
      placed:insert(block)
      placed:insert(pandoc.RawBlock("typst", "]"))
    elseif not is_trace(block) then
      placed:insert(block)
    elseif not FORMAT:match("typst") then
      placed:insert(pandoc.Div(pandoc.Para(block.content[1].content), { class = "trace" }))
    else
      local words = pandoc.Inlines({ pandoc.RawInline("typst", "#trace[") })
      words:extend(without_web(block.content[1].content))
      words:insert(pandoc.RawInline("typst", "]"))
      if #placed == 0 or not add_to_caption(placed[#placed], words) then
        placed:insert(pandoc.Para(words))
      end
    end
  end
  return placed
end

-- A part of the page that is folded. The content is in a Div of its own, so that its sections end
-- within it.
local function folded(blocks)
  return pandoc.Div({
    pandoc.RawBlock("html", "<details><summary>Show this part</summary>"), pandoc.Div(blocks),
    pandoc.RawBlock("html", "</details>"),
  })
end

-- Fold the sections of each chapter of the class `folded` on the page, or all of a chapter without
-- sections.
function Pandoc(doc)
  if not FORMAT:match("html") then return nil end
  local placed, chapter, part, open = pandoc.Blocks({}), false, pandoc.Blocks({}), false
  local function close(is_chapter)
    -- What a chapter says before its first section stays visible.
    if #part > 0 and (open or is_chapter) then placed:insert(folded(part)) else placed:extend(part) end
    part, open = pandoc.Blocks({}), false
  end
  for _, block in ipairs(doc.blocks) do
    local level = block.t == "Header" and block.level or 9
    if level <= 2 then
      close(chapter and level == 1 and not open)
      if level == 1 then chapter = block.classes:includes("folded") end
      placed:insert(block)
      open = chapter and level == 2
    elseif chapter then
      part:insert(block)
    else
      placed:insert(block)
    end
  end
  close(chapter)
  doc.blocks = placed
  return doc
end
