-- Features of Quarto that pandoc lacks: number figures, tables and sections, resolve references
-- such as @fig-goodput, and draw callouts. A reference without a target is an error.

local names = { fig = "Figure", tbl = "Table", sec = "Section", eq = "Equation" }
local counts = { fig = 0, tbl = 0, eq = 0 }
local numbers = {}
local section = { 0, 0, 0, 0, 0, 0 }

local function kind_of(id)
  return id:match("^(%a+)%-")
end

local function count(id)
  local kind = kind_of(id)
  if counts[kind] == nil then return nil end
  counts[kind] = counts[kind] + 1
  numbers[id] = tostring(counts[kind])
  return names[kind] .. " " .. numbers[id] .. ": "
end

-- pandoc's typst writer prints "Figure 1:" itself; HTML does not.
local function label_caption(caption, text)
  if FORMAT:match("html") and caption.long[1] then
    caption.long[1].content:insert(1, pandoc.Strong(text))
  end
  return caption
end

local numbered

local function number_blocks(block)
  if block.t == "Div" and block.classes:includes("filterable") then
    block.content = numbered(block.content)
    return block
  end
  if block.t == "Header" then
    if not block.classes:includes("unnumbered") then
      section[block.level] = section[block.level] + 1
      for deeper = block.level + 1, 6 do section[deeper] = 0 end
      local parts = {}
      for level = 1, block.level do parts[level] = tostring(section[level]) end
      if block.identifier:match("^sec%-") then
        numbers[block.identifier] = table.concat(parts, ".")
      end
    end
    return nil
  end
  if block.t == "Figure" and block.identifier:match("^fig%-") then
    block.caption = label_caption(block.caption, count(block.identifier))
    return block
  end
  if block.t == "Div" and block.identifier:match("^tbl%-") then
    local text = count(block.identifier)
    local found = nil
    block.content = block.content:walk({
      Table = function(tbl)
        tbl.caption = label_caption(tbl.caption, text)
        tbl.identifier = block.identifier
        found = tbl
        return tbl
      end,
    })
    if not found then error("losslab: " .. block.identifier .. " must hold a table, found none") end
    -- pandoc's typst writer turns the table into a captioned figure itself.
    if FORMAT:match("typst") then return found end
    block.identifier = ""
    return block
  end
  if block.t == "Div" then
    for _, class in ipairs(block.classes) do
      local style = class:match("^callout%-(%a+)$")
      if style then
        local first = block.content[1]
        local title = style:sub(1, 1):upper() .. style:sub(2)
        if first and first.t == "Header" then
          title = pandoc.utils.stringify(first)
          block.content:remove(1)
        end
        if FORMAT:match("typst") then
          local result = pandoc.Blocks({ pandoc.RawBlock("typst", "#callout(title: [" .. title .. "], body: [") })
          result:extend(block.content)
          result:insert(pandoc.RawBlock("typst", "])"))
          return result
        end
        block.classes = { "callout", "callout-" .. style }
        block.content:insert(1, pandoc.Para({ pandoc.Strong(title) }))
        return block
      end
    end
  end
end

local function resolve(cite)
  local id = cite.citations[1].id
  local kind = kind_of(id)
  if names[kind] == nil then return nil end
  if not numbers[id] then
    error("losslab: the cross-reference @" .. id .. " has no label: correct it, or label its target")
  end
  local text = names[kind] .. "\u{00A0}" .. numbers[id]
  return pandoc.Link(text, "#" .. id)
end

numbered = function(blocks)
  local result = pandoc.Blocks({})
  for _, block in ipairs(blocks) do
    local new = number_blocks(block)
    if new == nil then
      result:insert(block)
    elseif pandoc.utils.type(new) == "Blocks" then
      result:extend(new)
    else
      result:insert(new)
    end
  end
  return result
end

function Pandoc(doc)
  doc.blocks = numbered(doc.blocks):walk({ Cite = resolve })
  return doc
end
